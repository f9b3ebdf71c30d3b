// Places where tests delay, break or watch a running pipeline. Empty in a run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "fabric/collective.h"
#include "train/slots.h"

namespace draftsmith {

enum class PipelinePoint {
  packed,           // feeder: micro-batch `index` is about to be handed to its target
  target_pass,      // target: is about to run
  features_filled,  // target: the slot's features are about to be handed on
  awaits_features,  // drafter: its wait for the features of micro-batch `index` has begun
  drafter_pass,     // drafter: is about to run
  exchange,         // drafter: step `index` is about to be exchanged
  evaluated,        // evaluation: micro-batch `index` is predicted and about to be walked
  checkpoint,       // checkpoint thread: the files of step `index` are written, but not in place
};

struct PipelineHooks {
  // Called by many threads at once. `slot` is null where there is none.
  std::function<void(PipelinePoint point, std::int64_t index, Slot* slot)> at;
  // Given the run's exchange, returns the one that is used: the same, or another around it. Main thread, in set-up.
  std::function<std::unique_ptr<Collective>(std::unique_ptr<Collective>)> collective;

  void operator()(PipelinePoint point, std::int64_t index, Slot* slot = nullptr) const {
    if (at) at(point, index, slot);
  }
};

}  // namespace draftsmith
