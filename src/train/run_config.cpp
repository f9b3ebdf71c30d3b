#include "train/run_config.h"

#include <algorithm>

namespace draftsmith {

double default_gamma(std::int64_t block_size) {
  if (block_size == 16) return 7;
  return static_cast<double>(block_size / 2);  // (block_size - 1) / 2 rounded half up
}

bool has_sliding_layer(const DrafterConfig& drafter) {
  const auto& types = drafter.layer_types;
  return std::find(types.begin(), types.end(), LayerKind::sliding) != types.end();
}

void fill_derived_defaults(RunConfig& config) {
  if (!config.drafter.is_causal) config.drafter.is_causal = has_sliding_layer(config.drafter);
  TrainConfig& train = config.train;
  if (!train.steps && !train.epochs) train.steps = 400;
  if (train.loss.type == LossKind::dflash) {
    if (!train.loss.gamma) train.loss.gamma = default_gamma(config.drafter.block_size);
  } else if (!train.loss.alpha) {
    train.loss.alpha = 0.5;
  }
}

}  // namespace draftsmith
