// The state that training begins with, on the host until the devices have it: drawn from the seed, a given drafter's, or
// a checkpoint's.
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
  void release() { memory_ = Buffer(); }

 private:
  explicit InitialState(const WeightTable& table);

  Buffer memory_;
  TrainedState state_;
};

}  // namespace draftsmith
