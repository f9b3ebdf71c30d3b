#include "train/resolve.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/arithmetic.h"
#include "base/error.h"
#include "train/drafter_rope.h"

namespace draftsmith {
namespace {

LossSettings loss_settings(const LossConfig& config) {
  return {.kind = config.type,
          .gamma = static_cast<float>(config.gamma.value_or(0)),
          .alpha = static_cast<float>(config.alpha.value_or(0)),
          .distill_share = static_cast<float>(config.distill.weight),
          .distill_temperature = static_cast<float>(config.distill.temperature)};
}

}  // namespace

DType resolve_compute(const std::optional<DType>& wanted) {
  if (wanted) return *wanted;
  return __builtin_cpu_supports("avx512bf16") ? DType::bf16 : DType::float32;
}

DrafterShape resolve_drafter(const DrafterConfig& config, const TargetShape& target,
                             std::int64_t mask_token_id) {
  DrafterShape shape;
  shape.layers = config.layers;
  shape.width = target.width;
  shape.intermediate = config.intermediate.value_or(target.intermediate);
  shape.query_heads = config.query_heads.value_or(target.query_heads);
  shape.kv_heads = config.kv_heads.value_or(target.kv_heads);
  shape.head_dim = config.head_dim.value_or(target.head_dim);
  shape.vocabulary = target.vocabulary;
  shape.max_positions = target.max_positions;
  shape.target_layers = target.layers;
  shape.block_size = config.block_size;
  shape.taps = config.taps.empty() ? default_taps(target.layers, config.layers) : config.taps;
  shape.mask_token_id = mask_token_id;
  shape.epsilon = config.rms_norm_eps ? static_cast<float>(*config.rms_norm_eps) : target.epsilon;
  shape.rope = resolve_rope(config.rope, target.rope);
  shape.attention_bias = config.attention_bias;
  shape.layer_kinds = config.layer_types;
  if (shape.layer_kinds.empty()) shape.layer_kinds.assign(config.layers, LayerKind::full);
  shape.sliding_window = config.sliding_window.value_or(0);
  shape.causal_in_sliding_layers = config.is_causal.value_or(true);
  check_drafter_shape(shape);
  return shape;
}

void fill_resolved(RunConfig& config, const DrafterShape& drafter) {
  config.drafter.taps = drafter.taps;
  config.drafter.intermediate = drafter.intermediate;
  config.drafter.query_heads = drafter.query_heads;
  config.drafter.kv_heads = drafter.kv_heads;
  config.drafter.head_dim = drafter.head_dim;
  config.drafter.mask_token_id = drafter.mask_token_id;
  config.devices.threads = assign_devices(config.devices).front().device.threads;
}

RunShapes resolve_shapes(const RunConfig& config, const TargetShape& target, const DrafterShape& drafter) {
  if (config.data.max_length > target.max_positions) {
    throw Error(fmt::format("data.max_length is {}, but the target has {} positions; lower data.max_length",
                            config.data.max_length, target.max_positions));
  }
  return {.target = target,
          .drafter = drafter,
          .budget = {.context_tokens = config.train.context_tokens,
                     .blocks = config.train.blocks,
                     .block_size = drafter.block_size,
                     .loss_chunk_rows = usual_loss_chunk_rows(config.train.blocks, drafter.block_size)},
          .loss = loss_settings(config.train.loss),
          .recompute = config.train.recompute,
          .noise = config.train.noise,
          .positions = config.data.max_length + drafter.block_size};
}

PackerSettings packer_settings(const RunConfig& config, const BatchBudget& budget) {
  return {.seed = static_cast<std::uint64_t>(config.train.seed),
          .anchors_per_document = config.train.anchors_per_document,
          .epochs = config.train.epochs,
          .budget = budget};
}

std::int64_t resolve_steps(const RunConfig& config, const Corpus& corpus, const BatchBudget& budget) {
  if (config.train.steps) return *config.train.steps;
  const auto drafters = static_cast<std::int64_t>(config.devices.drafters.size());
  return div_ceil(count_micro_batches(corpus, packer_settings(config, budget)),
                  drafters * config.train.accumulate);
}

std::vector<DeviceAssignment> assign_devices(const DevicesConfig& config) {
  struct Named {
    DeviceName name;
    DeviceRoles roles;
  };
  std::vector<Named> named;
  const auto roles_of = [&](const std::string& text) -> DeviceRoles& {
    const DeviceName name = DeviceName::parse(text);
    const auto same = [&](const Named& one) { return one.name == name; };
    auto found = std::find_if(named.begin(), named.end(), same);
    if (found == named.end()) {
      named.push_back(
          {.name = name,
           .roles = {.targets = std::ssize(config.targets), .drafters = std::ssize(config.drafters)}});
      found = named.end() - 1;
    }
    return found->roles;
  };
  for (std::int64_t i = 0; i < std::ssize(config.targets); ++i) roles_of(config.targets[i]).target = i;
  for (std::int64_t i = 0; i < std::ssize(config.drafters); ++i) roles_of(config.drafters[i]).drafter = i;
  std::vector<DeviceAssignment> devices;
  for (const Named& one : named) {
    devices.push_back({.device = open_device(one.name, static_cast<int>(config.threads.value_or(0)),
                                             static_cast<int>(named.size())),
                       .roles = one.roles});
    devices.back().device.attention = config.attention;
    if (config.memory_gib) {
      devices.back().device.memory_limit_bytes =
          static_cast<std::int64_t>(*config.memory_gib * (std::int64_t{1} << 30));
    }
  }
  return devices;
}

}  // namespace draftsmith
