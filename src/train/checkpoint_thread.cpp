#include "train/checkpoint_thread.h"

#include <utility>

#include <fmt/core.h>

#include "base/error.h"

namespace draftsmith {
namespace {

namespace fs = std::filesystem;

// Where the checkpoint of `step` goes when the run's folder, once at `path`, is at `now` or nowhere.
RunFolder rescue_folder(const fs::path& path, const std::optional<fs::path>& now, std::int64_t step) {
  if (now) return {*now};
  if (!fs::exists(path)) return {path};
  throw Error(
      fmt::format("{}: the run's folder was removed while it ran, and another one has its name; the "
                  "checkpoint of step {} has no place. Begin anew with another output",
                  path.string(), step));
}

std::string rescue_text(const fs::path& path, const std::optional<fs::path>& now,
                        const CheckpointFolder& checkpoint) {
  if (now) {
    return fmt::format(
        "{}: the run's folder was moved to {} while it ran. The checkpoint of step {} is in it: move it "
        "back and go on with --resume, or go on with --resume output={}",
        path.string(), now->string(), checkpoint.step, now->string());
  }
  return fmt::format(
      "{}: the run's folder was removed while it ran, with its log and its earlier checkpoints. The "
      "checkpoint of step {} is written to {}: go on with --resume",
      path.string(), checkpoint.step, checkpoint.path.string());
}

}  // namespace

CheckpointThread::CheckpointThread(const CheckpointThreadSettings& settings, const WeightTable& table,
                                   InitialState initial, Recorder& recorder, const PipelineHooks& hooks)
    : settings_(settings),
      held_(settings.folder.path),
      table_(table),
      recorder_(recorder),
      hooks_(hooks),
      staging_(std::move(initial)),
      best_acceptance_(settings.best_acceptance),
      last_written_(settings.resumed) {
  staging_free_.push(true);
}

const TrainedState* CheckpointThread::claim_staging() {
  return staging_free_.pop() ? &staging_.state() : nullptr;
}

void CheckpointThread::submit_initial(const SnapshotJob& job) {
  DRAFTSMITH_CHECK(claim_staging() != nullptr, "nothing is submitted before it");
  submit(job);
}

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
  if (owes_pruning_) prune_checkpoints(settings_.folder, settings_.keep, WhileExported::wait);
}

void CheckpointThread::write(const SnapshotJob& job, const std::optional<EvaluationRecord>& evaluation) {
  const CheckpointFacts facts{.step = job.step,
                              .counters = job.counters,
                              .position = job.position,
                              .wall_s = job.wall_s,
                              .data = settings_.data,
                              .target = settings_.target,
                              .evaluation = evaluation,
                              .evaluated_on = evaluation ? settings_.evaluated_on : std::nullopt};
  const fs::path& path = settings_.folder.path;
  const std::optional<fs::path> now = held_.place();
  const RunFolder run = now == path ? settings_.folder : rescue_folder(path, now, job.step);
  const CheckpointFolder folder{.step = job.step, .path = run.checkpoint(job.step)};
  recorder_.flush();  // a checkpoint does not overtake the log: resuming cuts the log to its step
  write_checkpoint(folder.path,
                   {.facts = facts,
                    .config_text = settings_.config_text,
                    .choices_text = settings_.choices_text,
                    .drafter = settings_.drafter,
                    .table = table_,
                    .state = staging_.state()},
                   [&] { hooks_(PipelinePoint::checkpoint, job.step); });
  set_last_written(folder);  // before the older ones go
  if (now != path) throw Error(rescue_text(path, now, folder));
  owes_pruning_ = !prune_checkpoints(settings_.folder, settings_.keep);
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
