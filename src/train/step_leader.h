// What drafter 0 does after each update, for all: the step's record to the log, its state to the checkpoint
// thread, and the end of a run that cannot go on. Used by drafter 0's thread, but for what says otherwise; takes no heap unless it
// throws.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "fabric/barrier.h"
#include "kernels/adamw.h"
#include "metrics/recorder.h"
#include "train/checkpoint_thread.h"
#include "train/collector.h"
#include "train/sequence.h"
#include "train/slots.h"
#include "train/waits.h"

namespace draftsmith {

// What every drafter knows after an update; the same on all.
struct StepOutcome {
  std::int64_t step = 0;
  double learning_rate = 0;
  double denominator = 0;
  Vector<const double> sums;  // [StepSums::size]
  UpdateState update;
  StepCounters counters;
  bool skipped = false;
  bool stopping = false;
};

struct StepLeaderSettings {
  SequencePlan plan;
  std::int64_t block_size = 0;
  std::int64_t checkpoint_every = 0;
  std::int64_t epoch = 0;          // where the data begins
  std::int64_t writers = 1;        // drafters that hold a part of the state each
  double earlier_wall_s = 0;       // of the parts of the run before this one
  Collector* collector = nullptr;  // told when an evaluation starts; null without evaluations
};

class StepLeader {
 public:
  StepLeader(const StepLeaderSettings& settings, Recorder& recorder, CheckpointThread& checkpoints,
             SlotRing& ring)
      : settings_(settings),
        writers_(settings.writers),
        epoch_(settings.epoch),
        recorder_(recorder),
        checkpoints_(checkpoints),
        ring_(ring) {}

  // The clock starts: the first micro-batch is asked for.
  void begin();

  // By this process. Any thread.
  std::int64_t steps_made() const { return steps_made_; }

  // The first micro-batch of a step is there: what lies between steps, evaluations say, is not part of their speed.
  void step_begins() { step_began_s_ = wall_s(); }
  // `norms_at_one` is a share of weights, `times` the calling thread's. Throws Error when too many steps in a row were
  // skipped.
  void step_done(const StepOutcome& outcome, double norms_at_one, ThreadTimes& times);

  // Copies the state to the checkpoint thread if the step or the evaluation after it wants that. `copy`
  // writes it, or the part that drafter `rank` holds, to a TrainedState; every writer calls this after every step. False
  // when the run is being closed.
  template <typename Copy>
  bool offer_snapshot(std::int64_t rank, const StepOutcome& outcome, ThreadTimes& times, const Copy& copy) {
    const SnapshotJob job = snapshot_of(outcome);
    if (!job.due && !job.awaits_evaluation) return true;
    if (rank == 0) {
      staging_ = waiting(times, WaitFor::checkpoint, [&] { return checkpoints_.claim_staging(); });
      if (staging_ == nullptr) return false;
    }
    const auto all_writers_come = [&] {
      return waiting(times, WaitFor::exchange, [&] { return writers_.arrive(); });
    };
    if (!all_writers_come()) return false;
    copy(*staging_);
    if (!all_writers_come()) return false;
    if (rank == 0) checkpoints_.submit(job);
    return true;
  }

  // Ends every wait of a writer for the others. Any thread.
  void cancel() { writers_.cancel(); }

 private:
  SnapshotJob snapshot_of(const StepOutcome& outcome) const;
  double wall_s() const;

  // Constant after construction.
  const StepLeaderSettings settings_;
  // Shared by the writers; staging_ is drafter 0's until they have met.
  Barrier writers_;
  const TrainedState* staging_ = nullptr;
  // Drafter 0's thread only.
  std::int64_t epoch_;
  double step_began_s_ = 0;
  std::chrono::steady_clock::time_point began_;
  Recorder& recorder_;
  CheckpointThread& checkpoints_;
  SlotRing& ring_;
  // Shared.
  std::atomic<std::int64_t> steps_made_{0};
};

}  // namespace draftsmith
