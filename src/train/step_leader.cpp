#include "train/step_leader.h"

#include <fmt/core.h>

#include "base/error.h"
#include "train/divergence.h"
#include "train/evaluation.h"
#include "train/step_sums.h"

namespace draftsmith {
namespace {

constexpr std::int64_t kMostSkippedInARow = 10;

// Sums by name.
class Sums {
 public:
  Sums(Vector<const double> values, std::int64_t block_size) : values_(values), block_size_(block_size) {}

  double operator[](HostSum sum) const { return values_[StepSums::index(sum, block_size_)]; }
  double operator[](std::int64_t index) const { return values_[index]; }
  std::int64_t count(HostSum sum) const { return static_cast<std::int64_t>((*this)[sum]); }

  double accuracy() const {
    double hits = 0, slots = 0;
    for (std::int64_t offset = 1; offset < block_size_; ++offset) {
      hits += values_[LossSums::hits(offset)];
      slots += values_[LossSums::counts(offset, block_size_)];
    }
    return hits / slots;
  }

 private:
  const Vector<const double> values_;
  const std::int64_t block_size_;
};

}  // namespace

void StepLeader::begin() {
  began_ = std::chrono::steady_clock::now();
  if (settings_.plan.evaluate_first) settings_.collector->starts();
}

double StepLeader::wall_s() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
}

void StepLeader::step_done(const StepOutcome& outcome, double norms_at_one, ThreadTimes& times) {
  const Sums sums(outcome.sums, settings_.block_size);
  const double now_s = wall_s();
  StepRecord record;
  record.step = outcome.step;
  record.epoch = epoch_;
  record.loss = outcome.update.loss;
  record.accuracy = sums.accuracy();
  record.acceptance = sums[LossSums::kRuns] / sums[LossSums::kBlocks] + 1;
  record.accuracy_by_offset =
      hits_by_offset({outcome.sums.data, static_cast<std::size_t>(outcome.sums.size)}, settings_.block_size);
  record.learning_rate = outcome.learning_rate;
  record.gradient_norm = outcome.update.gradient_norm;
  record.tokens = sums.count(HostSum::context_tokens);
  record.blocks = sums.count(HostSum::blocks);
  record.coverage = sums[HostSum::covered_tokens] / sums[HostSum::supervised_tokens];
  record.norms_at_one = norms_at_one;
  record.tokens_per_second = sums[HostSum::context_tokens] / (now_s - step_began_s_);
  record.blocks_per_second = sums[HostSum::blocks] / (now_s - step_began_s_);
  record.queue_filled = ring_.filled();
  record.queue_slots = ring_.size();
  record.skipped = outcome.skipped;
  record.skipped_steps = outcome.counters.skipped;
  record.wall_s = settings_.earlier_wall_s + now_s;
  waiting(times, WaitFor::log, [&] { return recorder_.record(record); });
  ++steps_made_;
  epoch_ = sums.count(HostSum::epoch_after);
  if (!outcome.stopping && settings_.plan.evaluates_after(outcome.step)) settings_.collector->starts();
  if (outcome.counters.skipped_in_a_row < kMostSkippedInARow) return;
  const auto last = checkpoints_.last_written();
  throw Error(
      fmt::format("the loss or the gradient was not finite in {} steps in a row, up to step {}: training "
                  "cannot go on. {}. {}",
                  outcome.counters.skipped_in_a_row, outcome.step,
                  last ? fmt::format("The last good checkpoint is {}", last->path.string())
                       : "There is no checkpoint yet",
                  divergence_advice(outcome.counters)));
}

SnapshotJob StepLeader::snapshot_of(const StepOutcome& outcome) const {
  const Sums sums(outcome.sums, settings_.block_size);
  const std::int64_t every = settings_.checkpoint_every;
  const bool scheduled = outcome.step == settings_.plan.last_step || (every > 0 && outcome.step % every == 0);
  return {.step = outcome.step,
          .counters = outcome.counters,
          .position = {.epoch = sums.count(HostSum::epoch_after), .place = sums.count(HostSum::place_after)},
          .wall_s = settings_.earlier_wall_s + wall_s(),
          .due = scheduled || outcome.stopping,
          .awaits_evaluation = !outcome.stopping && settings_.plan.evaluates_after(outcome.step)};
}

}  // namespace draftsmith
