#include "train/checkpoint_thread.h"

namespace draftsmith {

CheckpointThread::CheckpointThread(const CheckpointThreadSettings& settings, const WeightTable& table,
                                   Recorder& recorder, const PipelineHooks& hooks)
    : settings_(settings),
      table_(table),
      recorder_(recorder),
      hooks_(hooks),
      staging_memory_(Buffer::pinned(staging_bytes(table))),
      best_acceptance_(settings.best_acceptance),
      last_written_(settings.resumed) {
  Carver carver(staging_memory_.data(), staging_memory_.bytes());
  staging_ = carve_trained_state(carver, table);
  staging_free_.push(true);
}

std::int64_t CheckpointThread::staging_bytes(const WeightTable& table) {
  Carver count;
  carve_trained_state(count, table);
  return count.peak();
}

const TrainedState* CheckpointThread::claim_staging() { return staging_free_.pop() ? &staging_ : nullptr; }

void CheckpointThread::run() {
  while (const auto job = jobs_.pop()) {
    std::optional<EvaluationRecord> evaluation;
    if (job->awaits_evaluation) {
      evaluation = evaluations_.pop();
      if (!evaluation && !job->due)
        return;  // closed; what is due is written all the same, owing its evaluation
    }
    const bool improves = evaluation && evaluation->acceptance > best_acceptance_;
    if (improves) best_acceptance_ = evaluation->acceptance;
    if (job->due || improves) write(*job, evaluation);
    staging_free_.push(true);
  }
}

void CheckpointThread::write(const SnapshotJob& job, const std::optional<EvaluationRecord>& evaluation) {
  const CheckpointFacts facts{.step = job.step,
                              .counters = job.counters,
                              .position = job.position,
                              .wall_s = job.wall_s,
                              .data = settings_.data,
                              .target = settings_.target,
                              .evaluation = evaluation};
  const CheckpointFolder folder{.step = job.step, .path = settings_.folder.checkpoint(job.step)};
  recorder_.flush();  // a checkpoint does not overtake the log: resuming cuts the log to its step
  write_checkpoint(folder.path,
                   {.facts = facts,
                    .config_text = settings_.config_text,
                    .choices_text = settings_.choices_text,
                    .drafter = settings_.drafter,
                    .table = table_,
                    .state = staging_},
                   [&] { hooks_(PipelinePoint::checkpoint, job.step); });
  set_last_written(folder);  // before the older ones go
  prune_checkpoints(settings_.folder, settings_.keep);
}

void CheckpointThread::finish() { jobs_.close(); }

void CheckpointThread::close() {
  jobs_.close();
  staging_free_.close();
  evaluations_.close();
}

void CheckpointThread::set_last_written(const CheckpointFolder& folder) {
  Lock lock(mutex_);
  last_written_ = folder;
}

std::optional<CheckpointFolder> CheckpointThread::last_written() {
  Lock lock(mutex_);
  return last_written_;
}

}  // namespace draftsmith
