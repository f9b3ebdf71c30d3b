#include "model/target_shape.h"

#include <fmt/core.h>

#include "base/error.h"

namespace draftsmith {
namespace {

constexpr std::int64_t kLargestHead = 256;  // what the attention kernels keep per query

}  // namespace

RopeShape rope_shape(const RopeConfig& rope) {
  RopeShape shape{.theta = rope.rope_theta};
  if (rope.rope_type == kDefaultRope) return shape;
  DRAFTSMITH_CHECK(rope.rope_type == kLlama3Rope, "the file's reader refuses other kinds of rope");
  shape.scaling = RopeScaling::llama3;
  shape.factor = rope.factor;
  shape.low_frequency_factor = rope.low_freq_factor;
  shape.high_frequency_factor = rope.high_freq_factor;
  shape.original_positions = rope.original_max_position_embeddings;
  return shape;
}

TargetShape target_shape(const TargetConfigFile& file) {
  const DecoderConfig& decoder = file.decoder;
  if (decoder.head_dim > kLargestHead) {
    throw Error(fmt::format("the target's head_dim is {}; heads of at most {} are computed", decoder.head_dim,
                            kLargestHead));
  }
  return {.family = file.model_type,
          .layers = decoder.num_hidden_layers,
          .width = decoder.hidden_size,
          .intermediate = decoder.intermediate_size,
          .query_heads = decoder.num_attention_heads,
          .kv_heads = decoder.num_key_value_heads,
          .head_dim = decoder.head_dim,
          .vocabulary = decoder.vocab_size,
          .max_positions = decoder.max_position_embeddings,
          .epsilon = static_cast<float>(decoder.rms_norm_eps),
          .rope = rope_shape(decoder.rope),
          .tied_head = file.tie_word_embeddings,
          .qkv_bias = file.qkv_bias,
          .output_bias = file.output_bias,
          .head_norm = file.head_norm};
}

TargetShape read_target_shape(const std::filesystem::path& folder) {
  return target_shape(read_target_config(folder));
}

}  // namespace draftsmith
