// Every number that decides what a device of a run holds and computes. Constant once a run is resolved.
#pragma once

#include <cstdint>

#include "kernels/block_loss.h"
#include "model/micro_batch.h"
#include "model/shape.h"
#include "train/run_config.h"

namespace draftsmith {

struct RunShapes {
  TargetShape target;
  DrafterShape drafter;
  BatchBudget budget;
  LossSettings loss;
  Recompute recompute = Recompute::none;
  NoiseConfig noise;
  std::int64_t positions = 0;  // rows of the rope tables: the longest document and a block beyond it

  // Layers of the target that a pass needs: up to the last tap, or all when the loss asks for its logits.
  std::int64_t target_layers() const { return loss.distilled() ? target.layers : drafter.taps.back() + 1; }
  // Width of the target's final hidden state in a slot: 0 when nobody reads it.
  std::int64_t teacher_width() const { return loss.distilled() ? target.width : 0; }
};

}  // namespace draftsmith
