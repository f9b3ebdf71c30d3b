// The state that training begins with, on the host: drawn from the seed, a given drafter's, or a checkpoint's. Once the
// devices have it, its memory is what checkpoints are staged in: there is no second of it.
#pragma once

#include <filesystem>
#include <optional>

#include "device/memory.h"
#include "model/weights.h"
#include "train/optimizer.h"
#include "train/run_config.h"
#include "train/run_shapes.h"

namespace draftsmith {

class InitialState {
 public:
  // Of a new run.
  InitialState(const WeightTable& table, const RunConfig& config, const RunShapes& shapes);
  // Of a resumed one.
  InitialState(const WeightTable& table, const std::filesystem::path& checkpoint);

  const TrainedState& state() const { return state_; }
  static std::int64_t bytes(const WeightTable& table);

 private:
  explicit InitialState(const WeightTable& table);

  Buffer memory_;
  TrainedState state_;
};

}  // namespace draftsmith
