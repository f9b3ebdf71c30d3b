#include "data/rope_config.h"

#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"

namespace draftsmith {
namespace {

constexpr NumberRange kTheta{.least = 1, .most = 1e12};
constexpr std::string_view kNoPart = "only rotation of whole heads is supported; choose another model";
constexpr std::string_view kAgree = "make them agree; which one the model was trained with cannot be told";

void read_no_parameters(const JsonFields&, RopeConfig&) {}

void read_llama3(const JsonFields& fields, RopeConfig& rope) {
  rope.factor = fields.number("factor", {.least = 1, .most = 1e6});
  rope.low_freq_factor = fields.number("low_freq_factor", {.least = 1e-6, .most = 1e6});
  rope.high_freq_factor = fields.number("high_freq_factor", {.least = 1e-6, .most = 1e6});
  rope.original_max_position_embeddings =
      fields.integer("original_max_position_embeddings", {.least = 1, .most = std::int64_t{1} << 31});
  if (rope.high_freq_factor <= rope.low_freq_factor)
    fields.refuse("high_freq_factor", fmt::format("more than low_freq_factor, {}", rope.low_freq_factor),
                  "correct one of them");
}

void write_no_parameters(const RopeConfig&, JsonObject&) {}

void write_llama3(const RopeConfig& rope, JsonObject& out) {
  out.push_back({"factor", {rope.factor}});
  out.push_back({"low_freq_factor", {rope.low_freq_factor}});
  out.push_back({"high_freq_factor", {rope.high_freq_factor}});
  out.push_back({"original_max_position_embeddings", {rope.original_max_position_embeddings}});
}

struct RopeType {
  std::string_view name;
  void (*read)(const JsonFields&, RopeConfig&);
  void (*write)(const RopeConfig&, JsonObject&);
};

// Complete: another type is another row.
constexpr std::array kRopeTypes{RopeType{kDefaultRope, read_no_parameters, write_no_parameters},
                                RopeType{kLlama3Rope, read_llama3, write_llama3}};

const RopeType* find_rope_type(std::string_view name) {
  for (const RopeType& type : kRopeTypes)
    if (type.name == name) return &type;
  return nullptr;
}

void refuse_partial_rotation(const JsonFields& fields) {
  const std::optional<double> part = fields.find_number("partial_rotary_factor", {});
  if (part && *part != 1) fields.refuse("partial_rotary_factor", "1", kNoPart);
  if (fields.has("mrope_section")) fields.refuse("mrope_section", "no such key", kNoPart);
}

// What rope_scaling or rope_parameters say beside theta: the type, by either of its keys, and its numbers.
RopeConfig read_type(const JsonFields& fields) {
  refuse_partial_rotation(fields);
  const std::string_view key = fields.has("rope_type") ? "rope_type" : "type";
  RopeConfig rope{.rope_type = fields.find_text(key).value_or(std::string(kDefaultRope))};
  const RopeType* type = find_rope_type(rope.rope_type);
  if (!type) fields.refuse(key, "\"default\" or \"llama3\"", "other scalings are not supported");
  type->read(fields, rope);
  return rope;
}

double read_theta(const JsonFields& fields, const std::optional<JsonFields>& parameters) {
  const std::optional<double> outer = fields.find_number("rope_theta", kTheta);
  const std::optional<double> inner =
      parameters ? parameters->find_number("rope_theta", kTheta) : std::nullopt;
  if (outer && inner && *outer != *inner)
    fields.refuse("rope_theta", fmt::format("{}, as in rope_parameters", *inner), kAgree);
  if (!outer && !inner)
    fields.refuse("rope_theta", "a number, here or in rope_parameters",
                  "add what the model was trained with");
  return outer ? *outer : *inner;
}

}  // namespace

RopeConfig read_rope_config(const JsonFields& fields) {
  refuse_partial_rotation(fields);
  const std::optional<JsonFields> parameters = fields.find_object("rope_parameters");
  const std::optional<JsonFields> scaling = fields.find_object("rope_scaling");
  RopeConfig rope = parameters ? read_type(*parameters) : scaling ? read_type(*scaling) : RopeConfig{};
  if (parameters && scaling && read_type(*scaling) != rope)
    fields.refuse("rope_scaling", "the same as in rope_parameters", kAgree);
  rope.rope_theta = read_theta(fields, parameters);
  return rope;
}

void write_rope_config(const RopeConfig& rope, JsonObject& out) {
  const RopeType* type = find_rope_type(rope.rope_type);
  DRAFTSMITH_CHECK(type != nullptr, "a rope type that was read is written");
  JsonObject scaling{{"rope_type", {rope.rope_type}}};
  type->write(rope, scaling);
  JsonObject parameters{{"rope_theta", {rope.rope_theta}}};
  parameters.insert(parameters.end(), scaling.begin(), scaling.end());
  out.push_back({"rope_theta", {rope.rope_theta}});
  if (rope.rope_type == kDefaultRope) {
    out.push_back({"rope_scaling", {JsonNull{}}});
  } else {
    out.push_back({"rope_scaling", {std::move(scaling)}});
  }
  out.push_back({"rope_parameters", {std::move(parameters)}});
}

}  // namespace draftsmith
