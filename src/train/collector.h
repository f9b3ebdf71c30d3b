// The evaluation thread: takes predicted slots, walks the answers, and tells the log and the checkpoint
// thread what came of it.
#pragma once

#include <chrono>
#include <optional>

#include "base/queue.h"
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

  // Drafter 0, or who starts it: its next micro-batch is the first of an evaluation, whose clock starts. Blocks
  // while an earlier one has not been seen here; takes no heap.
  void starts() { starts_.push(std::chrono::steady_clock::now()); }
  // Nothing is waited for any more.
  void close() { starts_.close(); }

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
  // Shared.
  Queue<std::chrono::steady_clock::time_point> starts_{1};
};

}  // namespace draftsmith
