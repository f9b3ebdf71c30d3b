// Every number that decides what a device of a run holds and computes. Constant once a run is resolved.
#pragma once

#include <cstdint>

#include "kernels/block_loss.h"
#include "model/micro_batch.h"
#include "model/shape.h"

namespace draftsmith {

struct RunShapes {
  TargetShape target;
  DrafterShape drafter;
  BatchBudget budget;
  LossSettings loss;
  std::int64_t positions = 0;  // rows of the rope tables: the longest document and a block beyond it

  // Layers of the target that features need: up to the last tap.
  std::int64_t target_layers() const { return drafter.taps.back() + 1; }
};

}  // namespace draftsmith
