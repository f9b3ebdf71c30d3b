#include "model/target_shape.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

#include <fmt/core.h>

#include "base/error.h"
#include "kernels/moe.h"
#include "model/rope.h"

namespace draftsmith {
namespace {

struct ScalingName {
  RopeScaling scaling;
  std::string_view name;
};
constexpr ScalingName kScalings[] = {{RopeScaling::none, kDefaultRope},
                                     {RopeScaling::linear, kLinearRope},
                                     {RopeScaling::llama3, kLlama3Rope},
                                     {RopeScaling::yarn, kYarnRope}};

// What yarn multiplies cosines and sines by: stated, or the ratio of two implied factors whose logarithms are
// weighted, or the one that the factor implies.
double attention_factor(const RopeConfig& rope) {
  if (rope.attention_factor) return *rope.attention_factor;
  if (rope.mscale.value_or(0) == 0 || rope.mscale_all_dim.value_or(0) == 0) {
    return yarn_attention_factor(rope.factor);
  }
  const auto weighted = [&](double weight) { return 0.1 * weight * std::log(rope.factor) + 1; };
  return weighted(*rope.mscale) / weighted(*rope.mscale_all_dim);
}

}  // namespace

RopeShape rope_shape(const RopeConfig& rope) {
  const auto* scaling = std::find_if(std::begin(kScalings), std::end(kScalings),
                                     [&](const ScalingName& one) { return one.name == rope.rope_type; });
  DRAFTSMITH_CHECK(scaling != std::end(kScalings), "the file's reader refuses other kinds of rope");
  RopeShape shape{.theta = rope.rope_theta, .scaling = scaling->scaling, .factor = rope.factor};
  if (shape.scaling == RopeScaling::llama3) {
    shape.low_frequency_factor = rope.low_freq_factor;
    shape.high_frequency_factor = rope.high_freq_factor;
    shape.original_positions = rope.original_max_position_embeddings;
  }
  if (shape.scaling == RopeScaling::yarn) {
    shape.original_positions = rope.original_max_position_embeddings;
    shape.beta_fast = rope.beta_fast;
    shape.beta_slow = rope.beta_slow;
    shape.truncate = rope.truncate;
    shape.attention_factor = attention_factor(rope);
  }
  return shape;
}

RopeConfig rope_config(const RopeShape& rope) {
  const auto* scaling = std::find_if(std::begin(kScalings), std::end(kScalings),
                                     [&](const ScalingName& one) { return one.scaling == rope.scaling; });
  RopeConfig config{.rope_type = std::string(scaling->name), .rope_theta = rope.theta, .factor = rope.factor};
  if (rope.scaling == RopeScaling::llama3) {
    config.low_freq_factor = rope.low_frequency_factor;
    config.high_freq_factor = rope.high_frequency_factor;
    config.original_max_position_embeddings = rope.original_positions;
  }
  if (rope.scaling == RopeScaling::yarn) {
    config.original_max_position_embeddings = rope.original_positions;
    config.beta_fast = rope.beta_fast;
    config.beta_slow = rope.beta_slow;
    config.truncate = rope.truncate;
    if (rope.attention_factor != yarn_attention_factor(rope.factor)) {
      config.attention_factor = rope.attention_factor;
    }
  }
  return config;
}

TargetShape target_shape(const TargetConfigFile& file) {
  const DecoderConfig& decoder = file.decoder;
  if (decoder.head_dim > kLargestHead) {
    throw Error(fmt::format("the target's head_dim is {}; heads of at most {} are computed", decoder.head_dim,
                            kLargestHead));
  }
  const ExpertsConfig& experts = file.experts;
  if (experts.num_experts > kMostExperts) {
    throw Error(fmt::format("the target has {} experts; mixtures of at most {} are computed",
                            experts.num_experts, kMostExperts));
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
          .head_norm = file.head_norm,
          .experts = {.count = experts.num_experts,
                      .chosen = experts.num_experts_per_tok,
                      .intermediate = experts.moe_intermediate_size,
                      .normalise = experts.norm_topk_prob},
          .sparse_layers = experts.sparse_layers};
}

TargetShape read_target_shape(const std::filesystem::path& folder) {
  return target_shape(read_target_config(folder));
}

}  // namespace draftsmith
