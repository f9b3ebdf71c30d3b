#include "data/rope_config.h"

#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"

namespace draftsmith {
namespace {

constexpr NumberRange kTheta{.least = 1, .most = 1e12};
constexpr NumberRange kFactor{.least = 1, .most = 1e6};
constexpr NumberRange kPositive{.least = 1e-6, .most = 1e6};
constexpr IntegerRange kPositions{.least = 1, .most = std::int64_t{1} << 31};
constexpr std::string_view kNoPart = "only rotation of whole heads is supported; choose another model";
constexpr std::string_view kAgree = "make them agree; which one the model was trained with cannot be told";

void read_no_parameters(const JsonFields&, RopeConfig&) {}

void read_linear(const JsonFields& fields, RopeConfig& rope) {
  rope.factor = fields.number("factor", kFactor);
}

void read_llama3(const JsonFields& fields, RopeConfig& rope) {
  rope.factor = fields.number("factor", kFactor);
  rope.low_freq_factor = fields.number("low_freq_factor", kPositive);
  rope.high_freq_factor = fields.number("high_freq_factor", kPositive);
  rope.original_max_position_embeddings = fields.integer("original_max_position_embeddings", kPositions);
  if (rope.high_freq_factor <= rope.low_freq_factor)
    fields.refuse("high_freq_factor", fmt::format("more than low_freq_factor, {}", rope.low_freq_factor),
                  "correct one of them");
}

void read_yarn(const JsonFields& fields, RopeConfig& rope) {
  rope.factor = fields.number("factor", kFactor);
  rope.original_max_position_embeddings = fields.integer("original_max_position_embeddings", kPositions);
  rope.beta_fast = fields.find_number("beta_fast", kPositive).value_or(rope.beta_fast);
  rope.beta_slow = fields.find_number("beta_slow", kPositive).value_or(rope.beta_slow);
  rope.truncate = fields.find_boolean("truncate").value_or(rope.truncate);
  rope.attention_factor = fields.find_number("attention_factor", kPositive);
  rope.mscale = fields.find_number("mscale", {.least = 0, .most = 1e6});
  rope.mscale_all_dim = fields.find_number("mscale_all_dim", {.least = 0, .most = 1e6});
  if (rope.beta_fast <= rope.beta_slow)
    fields.refuse("beta_fast", fmt::format("more than beta_slow, {}", rope.beta_slow), "correct one of them");
}

void write_no_parameters(const RopeConfig&, JsonObject&) {}

void write_linear(const RopeConfig& rope, JsonObject& out) { out.push_back({"factor", {rope.factor}}); }

void write_llama3(const RopeConfig& rope, JsonObject& out) {
  out.push_back({"factor", {rope.factor}});
  out.push_back({"low_freq_factor", {rope.low_freq_factor}});
  out.push_back({"high_freq_factor", {rope.high_freq_factor}});
  out.push_back({"original_max_position_embeddings", {rope.original_max_position_embeddings}});
}

// Keys that some loaders do not know are left out where they say what is meant without them.
void write_yarn(const RopeConfig& rope, JsonObject& out) {
  out.push_back({"factor", {rope.factor}});
  out.push_back({"original_max_position_embeddings", {rope.original_max_position_embeddings}});
  out.push_back({"beta_fast", {rope.beta_fast}});
  out.push_back({"beta_slow", {rope.beta_slow}});
  if (!rope.truncate) out.push_back({"truncate", {false}});
  if (rope.attention_factor) out.push_back({"attention_factor", {*rope.attention_factor}});
  if (rope.mscale) out.push_back({"mscale", {*rope.mscale}});
  if (rope.mscale_all_dim) out.push_back({"mscale_all_dim", {*rope.mscale_all_dim}});
}

struct RopeType {
  std::string_view name;
  void (*read)(const JsonFields&, RopeConfig&);
  void (*write)(const RopeConfig&, JsonObject&);
};

// Complete: another type is another row.
constexpr std::array kRopeTypes{RopeType{kDefaultRope, read_no_parameters, write_no_parameters},
                                RopeType{kLinearRope, read_linear, write_linear},
                                RopeType{kLlama3Rope, read_llama3, write_llama3},
                                RopeType{kYarnRope, read_yarn, write_yarn}};

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
  if (!type)
    fields.refuse(key, "\"default\", \"linear\", \"llama3\" or \"yarn\"", "other scalings are not supported");
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
  if (rope.rope_type == kYarnRope && rope.rope_theta <= 1)
    (fields.has("rope_theta") ? fields : *parameters)
        .refuse("rope_theta", "more than 1 with yarn, which tells pairs apart by their speed",
                "add what the model was trained with");
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
