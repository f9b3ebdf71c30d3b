// The feeder: packs micro-batch after micro-batch, of training and of evaluations, into free slots.
#pragma once

#include "train/evaluation.h"
#include "train/hooks.h"
#include "train/packer.h"
#include "train/sequence.h"
#include "train/slots.h"
#include "train/waits.h"

namespace draftsmith {

// Owned by the feeder's thread; all but run() happens in the main thread before it starts.
class Feeder {
 public:
  // `evaluation` is null when the run has none.
  Feeder(Packer packer, const EvaluationPlan* evaluation, MicroBatchBuilder evaluation_builder)
      : packer_(std::move(packer)),
        evaluation_(evaluation),
        evaluation_builder_(std::move(evaluation_builder)) {}

  // Blocks until the sequence is done, or the ring ends or is closed.
  void run(const SequencePlan& plan, SlotRing& ring, const PipelineHooks& hooks);

  // After run() has ended.
  const ThreadTimes& times() const { return times_; }

 private:
  Packer packer_;
  const EvaluationPlan* evaluation_;
  MicroBatchBuilder evaluation_builder_;
  ThreadTimes times_{.name = "feeder"};
};

}  // namespace draftsmith
