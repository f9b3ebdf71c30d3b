// What the configurations of targets and drafters have in common: the sizes of a stack of decoder layers with
// grouped-query attention and SwiGLU, and its rotary embedding.
#pragma once

#include <cstdint>
#include <string>

#include "data/json_fields.h"
#include "data/rope_config.h"

namespace draftsmith {

// The files' own names.
struct DecoderConfig {
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_hidden_layers = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;  // absent: num_attention_heads
  std::int64_t head_dim = 0;             // absent: hidden_size / num_attention_heads
  std::int64_t vocab_size = 0;           // rows of the embedding table, padding rows too
  std::int64_t max_position_embeddings = 0;
  double rms_norm_eps = 0;
  RopeConfig rope;
  std::string dtype;  // "bfloat16", ...: what the file says of its weights, empty when it says nothing

  bool operator==(const DecoderConfig&) const = default;
};

// `fields` is the whole configuration. Errors: sizes outside what any model has, heads that are no multiple
// of key-value heads, an odd head_dim, an activation other than silu, quantised weights.
DecoderConfig read_decoder_config(const JsonFields& fields);

// Appends all of it but dtype, with hidden_act.
void write_decoder_config(const DecoderConfig& config, JsonObject& out);

}  // namespace draftsmith
