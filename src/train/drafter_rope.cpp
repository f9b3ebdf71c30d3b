#include "train/drafter_rope.h"

#include <string>

#include "base/error.h"
#include "model/rope.h"

namespace draftsmith {
namespace {

template <typename E>
E required(const std::optional<E>& value, const std::string& name) {
  if (value) return *value;
  throw Error("'drafter.rope.scaling." + name + "' is missing: this scaling needs it");
}

}  // namespace

RopeShape resolve_rope(const DrafterRopeConfig& config, const RopeShape& target) {
  const RopeScalingConfig& scaling = config.scaling;
  RopeShape rope{.theta = config.theta.value_or(target.theta), .scaling = scaling.type};
  if (scaling.type == RopeScaling::none) return rope;
  rope.factor = required(scaling.factor, "factor");
  if (scaling.type != RopeScaling::yarn) return rope;
  rope.original_positions =
      required(scaling.original_max_position_embeddings, "original_max_position_embeddings");
  rope.beta_fast = scaling.beta_fast.value_or(rope.beta_fast);
  rope.beta_slow = scaling.beta_slow.value_or(rope.beta_slow);
  rope.attention_factor = scaling.attention_factor.value_or(yarn_attention_factor(rope.factor));
  return rope;
}

}  // namespace draftsmith
