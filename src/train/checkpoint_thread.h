// Writes checkpoints beside the training. Drafter 0 copies its state into one staging buffer at a step's end
// and goes on; if the buffer is still being written, it waits. Where an evaluation follows the step, the
// write waits for its result: the checkpoint holds it, and one that nobody asked for is written only when the
// acceptance is the best so far.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "base/queue.h"
#include "data/held_folder.h"
#include "metrics/recorder.h"
#include "train/checkpoint.h"
#include "train/hooks.h"
#include "train/initial_state.h"

namespace draftsmith {

// Written by drafter 0 with the state.
struct SnapshotJob {
  std::int64_t step = 0;
  StepCounters counters;
  DataPosition position;
  double wall_s = 0;
  bool due = false;                // is written whatever the evaluation says
  bool awaits_evaluation = false;  // one follows the step
};

struct CheckpointThreadSettings {
  RunFolder folder;
  std::string config_text;
  std::string choices_text;
  DrafterShape drafter;
  CorpusIdentity data;
  TargetIdentity target;
  std::optional<CorpusIdentity> evaluated_on;  // none where there is no evaluation
  std::int64_t keep = 1;
  double best_acceptance = 0;  // on that, of the checkpoints that a resumed run found
  std::optional<CheckpointFolder> resumed;
};

class CheckpointThread {
 public:
  // Stages in the memory of `initial`, which the devices have.
  CheckpointThread(const CheckpointThreadSettings& settings, const WeightTable& table, InitialState initial,
                   Recorder& recorder, const PipelineHooks& hooks);

  // The thread's body. Blocks until finish() or close(); throws what the disk does wrong, and where the run's folder was
  // moved or removed: the checkpoint is then written to where it is, or to a new folder in its place.
  void run();

  // Drafter 0. Blocks while the buffer is in use; null after close(). Takes no heap.
  const TrainedState* claim_staging();
  // Before run(): the initial state, which is staged as it is, is written, with the evaluation that follows.
  void submit_initial(const SnapshotJob& job);
  void submit(const SnapshotJob& job) { jobs_.push(job); }
  // Collector: in the order of the evaluations.
  void evaluated(const EvaluationRecord& record) { evaluations_.push(record); }
  // What is submitted is still written.
  void finish();
  // Nothing is waited for any more. A checkpoint that is due and waits for its evaluation is written without it.
  void close();

  // The newest that is written or was resumed from. Any thread.
  std::optional<CheckpointFolder> last_written();
  double best_acceptance() const { return best_acceptance_; }  // after run() has ended

 private:
  void write(const SnapshotJob& job, const std::optional<EvaluationRecord>& evaluation);
  void set_last_written(const CheckpointFolder& folder);

  // Constant after construction.
  const CheckpointThreadSettings settings_;
  const HeldFolder held_;  // the run's
  const WeightTable& table_;
  Recorder& recorder_;
  const PipelineHooks& hooks_;
  const InitialState staging_;  // by turns of drafter 0 and this thread, as the queues say
  // Checkpoint thread only.
  double best_acceptance_;
  bool owes_pruning_ = false;  // an export read the older checkpoints
  // Shared.
  Queue<SnapshotJob> jobs_{1};
  Queue<bool> staging_free_{1};
  Queue<EvaluationRecord> evaluations_{1};
  Mutex mutex_;
  std::optional<CheckpointFolder> last_written_ GUARDED_BY(mutex_);
};

}  // namespace draftsmith
