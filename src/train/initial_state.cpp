#include "train/initial_state.h"

#include "train/checkpoint.h"
#include "train/warm_start.h"

namespace draftsmith {

InitialState::InitialState(const WeightTable& table) {
  memory_ = Buffer::pinned(bytes(table));
  Carver carver(memory_.data(), memory_.bytes());
  state_ = carve_trained_state(carver, table);
}

std::int64_t InitialState::bytes(const WeightTable& table) {
  Carver count;
  carve_trained_state(count, table);
  return count.peak();
}

InitialState::InitialState(const WeightTable& table, const RunConfig& config, const RunShapes& shapes)
    : InitialState(table) {
  initialise_state(table, static_cast<std::uint64_t>(config.train.seed), state_);
  if (!config.drafter.init.empty()) load_initial_weights(config.drafter.init, shapes.drafter, state_.master);
}

InitialState::InitialState(const WeightTable& table, const std::filesystem::path& checkpoint)
    : InitialState(table) {
  read_checkpoint_state(checkpoint, table, state_);
}

}  // namespace draftsmith
