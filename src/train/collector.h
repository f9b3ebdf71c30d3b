// The evaluation thread: takes predicted slots, walks the answers, and tells the log and the checkpoint
// thread what came of it.
#pragma once

#include <optional>

#include "metrics/recorder.h"
#include "train/checkpoint_thread.h"
#include "train/evaluation.h"
#include "train/hooks.h"
#include "train/sequence.h"
#include "train/slots.h"
#include "train/waits.h"

namespace draftsmith {

// Owned by its thread once run() is called.
class Collector {
 public:
  Collector(const EvaluationPlan& plan, LossKind loss, std::int64_t block_size, const PipelineHooks& hooks)
      : plan_(plan), hooks_(hooks), tally_(plan, loss, block_size) {}

  // Blocks until the sequence is done, or the ring ends or is closed.
  void run(const SequencePlan& sequence, SlotRing& ring, Recorder& recorder, CheckpointThread& checkpoints);

  // After run() has ended.
  const ThreadTimes& times() const { return times_; }
  const std::optional<EvaluationRecord>& last() const { return last_; }

 private:
  const EvaluationPlan& plan_;
  const PipelineHooks& hooks_;
  EvaluationTally tally_;
  ThreadTimes times_{.name = "evaluation"};
  std::optional<EvaluationRecord> last_;
};

}  // namespace draftsmith
