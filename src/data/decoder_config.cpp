#include "data/decoder_config.h"

#include <fmt/format.h>

#include "data/quantised.h"

namespace draftsmith {
namespace {

// Bounds that no real model reaches; they keep every later product far inside int64.
constexpr IntegerRange kWidth{.least = 1, .most = std::int64_t{1} << 20};
constexpr IntegerRange kLayers{.least = 1, .most = 4096};
constexpr IntegerRange kHeads{.least = 1, .most = 4096};
constexpr IntegerRange kHeadDim{.least = 2, .most = 4096};
constexpr IntegerRange kRows{.least = 1, .most = std::int64_t{1} << 26};
constexpr IntegerRange kPositions{.least = 1, .most = std::int64_t{1} << 31};

std::int64_t read_head_dim(const JsonFields& fields, std::int64_t hidden_size, std::int64_t heads) {
  if (!fields.has("head_dim") && hidden_size % heads != 0)
    fields.refuse("head_dim",
                  fmt::format("a size, since {} heads do not divide hidden_size {}", heads, hidden_size),
                  "add it");
  const std::int64_t head_dim = fields.find_integer("head_dim", kHeadDim).value_or(hidden_size / heads);
  if (head_dim % 2 != 0)
    fields.refuse("head_dim", "an even size, whose halves rotate against each other", "choose another model");
  return head_dim;
}

void refuse_unsupported(const JsonFields& fields) {
  refuse_quantised_config(fields);
  if (fields.find_text("hidden_act").value_or("silu") != "silu")
    fields.refuse("hidden_act", "\"silu\"", "other activations are not supported");
}

}  // namespace

DecoderConfig read_decoder_config(const JsonFields& fields) {
  refuse_unsupported(fields);
  DecoderConfig config{.hidden_size = fields.integer("hidden_size", kWidth),
                       .intermediate_size = fields.integer("intermediate_size", kWidth),
                       .num_hidden_layers = fields.integer("num_hidden_layers", kLayers),
                       .num_attention_heads = fields.integer("num_attention_heads", kHeads),
                       .vocab_size = fields.integer("vocab_size", kRows),
                       .max_position_embeddings = fields.integer("max_position_embeddings", kPositions),
                       .rms_norm_eps = fields.number("rms_norm_eps", {.least = 0, .most = 1}),
                       .rope = read_rope_config(fields)};
  config.num_key_value_heads =
      fields.find_integer("num_key_value_heads", kHeads).value_or(config.num_attention_heads);
  if (config.num_attention_heads % config.num_key_value_heads != 0)
    fields.refuse("num_key_value_heads",
                  fmt::format("a divisor of num_attention_heads, {}", config.num_attention_heads),
                  "correct one of them");
  config.head_dim = read_head_dim(fields, config.hidden_size, config.num_attention_heads);
  const std::string_view dtype_key = fields.has("dtype") ? "dtype" : "torch_dtype";
  config.dtype = fields.find_text(dtype_key).value_or("");
  return config;
}

void write_decoder_config(const DecoderConfig& config, JsonObject& out) {
  out.push_back({"hidden_size", {config.hidden_size}});
  out.push_back({"intermediate_size", {config.intermediate_size}});
  out.push_back({"num_hidden_layers", {config.num_hidden_layers}});
  out.push_back({"num_attention_heads", {config.num_attention_heads}});
  out.push_back({"num_key_value_heads", {config.num_key_value_heads}});
  out.push_back({"head_dim", {config.head_dim}});
  out.push_back({"hidden_act", {std::string("silu")}});
  out.push_back({"rms_norm_eps", {config.rms_norm_eps}});
  out.push_back({"vocab_size", {config.vocab_size}});
  out.push_back({"max_position_embeddings", {config.max_position_embeddings}});
  write_rope_config(config.rope, out);
}

}  // namespace draftsmith
