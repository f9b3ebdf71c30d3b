#include "train/trainer.h"

#include <algorithm>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/log.h"
#include "data/file.h"
#include "data/folder_lock.h"
#include "data/snapshot.h"
#include "metrics/recorder.h"
#include "train/pipeline.h"
#include "train/resolve.h"
#include "train/warm_start.h"

namespace draftsmith {
namespace {

// The newest checkpoint, checked against what is asked for now.
struct Resumed {
  CheckpointFolder checkpoint;
  CheckpointFacts facts;
};

Resumed find_resumed(const TrainRequest& request, const RunFolder& folder, std::int64_t steps) {
  const CheckpointFolder checkpoint = newest_checkpoint(folder);
  const std::string place = checkpoint.path.string();
  request.check_resumed_config(read_checkpoint_config(checkpoint.path), place);
  const CheckpointFacts facts = read_checkpoint_facts(checkpoint.path);
  if (identify(request.inputs.train) != facts.data) {
    throw Error(
        fmt::format("{}: the training data has changed since this checkpoint ({} documents, {} tokens "
                    "then); restore it, or begin anew with --overwrite",
                    place, facts.data.documents, facts.data.tokens));
  }
  if (facts.step >= steps) {
    throw Error(fmt::format(
        "{}: all {} steps are made; there is nothing to resume. `draftsmith export {}` exports the drafter",
        place, steps, folder.path.string()));
  }
  return {.checkpoint = checkpoint, .facts = facts};
}

StartingPoint starting_point(const std::optional<Resumed>& resumed, const PipelineInputs& inputs) {
  if (!resumed) return {};
  const CheckpointFacts& facts = resumed->facts;
  StartingPoint start{
      .step = facts.step, .counters = facts.counters, .position = facts.position, .wall_s = facts.wall_s};
  start.owes_evaluation =
      !facts.evaluation && plan_sequence(inputs, plan_evaluation(inputs), start).evaluates_after(facts.step);
  return start;
}

double best_acceptance(const RunFolder& folder) {
  const auto best = best_checkpoint(folder);
  return best ? read_checkpoint_facts(best->path).evaluation->acceptance : 0;
}

void announce(const TrainRequest& request, Recorder& recorder, std::int64_t steps) {
  const DrafterShape& drafter = request.inputs.shapes.drafter;
  const CorpusCounts& counts = request.inputs.train.counts();
  const bool bf16 = request.config.train.compute == DType::bf16;
  recorder.say(fmt::format(
      "{} documents ({} skipped, {} cut), {} tokens of which {} supervised; {} steps in {}\n"
      "drafter: {} layers, taps [{}], blocks of {}, mask token {}, {:.2f} M weights",
      request.inputs.train.size(), counts.skipped, counts.truncated, counts.tokens, counts.supervised_tokens,
      steps, bf16 ? "bf16" : "float32", drafter.layers, fmt::join(drafter.taps, ", "), drafter.block_size,
      drafter.mask_token_id, static_cast<double>(drafter_weight_table(drafter).size) / 1e6));
}

// While one lives, lines of the log go through the recorder, so that they and the progress do not mix.
class LogThroughRecorder {
 public:
  explicit LogThroughRecorder(Recorder& recorder) {
    set_log_sink([&recorder](std::string_view line) { recorder.say(std::string(line)); });
  }
  ~LogThroughRecorder() { set_log_sink({}); }
  LogThroughRecorder(const LogThroughRecorder&) = delete;
  LogThroughRecorder& operator=(const LogThroughRecorder&) = delete;
};

// The state that training begins with, on the host until it is released.
class InitialState {
 public:
  InitialState(const WeightTable& table, const PipelineInputs& inputs,
               const std::optional<Resumed>& resumed) {
    Carver count;
    carve_trained_state(count, table);
    memory_ = Buffer::pinned(count.peak());
    Carver carver(memory_.data(), memory_.bytes());
    state_ = carve_trained_state(carver, table);
    if (resumed) {
      read_checkpoint_state(resumed->checkpoint.path, table, state_);
    } else {
      initialise_state(table, static_cast<std::uint64_t>(inputs.config.train.seed), state_);
      const std::string& init = inputs.config.drafter.init;
      if (!init.empty()) load_initial_weights(init, inputs.shapes.drafter, state_.master);
    }
  }
  const TrainedState& state() const { return state_; }
  void release() { memory_ = Buffer(); }

 private:
  Buffer memory_;
  TrainedState state_;
};

// A checkpoint that was written when a signal stopped the run has no evaluation: the one it owes becomes part
// of it.
void offer_owed(const StartingPoint& start, const TrainedState& state, CheckpointThread& checkpoints) {
  const TrainedState& staging = *checkpoints.claim_staging();
  std::copy(state.master.begin(), state.master.end(), staging.master.begin());
  std::copy(state.first_moment.begin(), state.first_moment.end(), staging.first_moment.begin());
  std::copy(state.second_moment.begin(), state.second_moment.end(), staging.second_moment.begin());
  checkpoints.submit({.step = start.step,
                      .counters = start.counters,
                      .position = start.position,
                      .wall_s = start.wall_s,
                      .due = true,
                      .awaits_evaluation = true});
}

// Everything that can fail at the start has not: only now what an older run left is touched.
void begin_folder(const TrainRequest& request, const RunFolder& folder, const StartingPoint& start) {
  if (request.existing == ExistingFolder::overwrite) empty_run_folder(folder);
  remove_stale_temporaries(folder.path);
  atomic_write_file(folder.config(), request.config_text);
  std::filesystem::create_directories(folder.checkpoints());
  remove_stale_temporaries(folder.checkpoints());
  cut_to_step(folder.metrics(), start.step);
}

template <typename T>
TrainResult train_as(const TrainRequest& request, const RunFolder& folder, const PipelineInputs& inputs,
                     const std::optional<Resumed>& resumed) {
  const StartingPoint start = starting_point(resumed, inputs);
  Pipeline<T> pipeline(inputs);
  pipeline.measure();
  pipeline.allocate();
  InitialState initial(pipeline.table(), inputs, resumed);
  pipeline.set_up(initial.state(), start);
  begin_folder(request, folder, start);
  Recorder recorder(LogFile(folder.metrics()), Progress(request.progress(inputs.steps)));
  const LogThroughRecorder log(recorder);
  announce(request, recorder, inputs.steps);
  if (resumed) recorder.say(fmt::format("resuming after step {}", start.step));
  CheckpointThread checkpoints({.folder = folder,
                                .config_text = request.config_text,
                                .drafter = inputs.shapes.drafter,
                                .data = identify(inputs.train),
                                .keep = inputs.config.train.checkpoint.keep,
                                .best_acceptance = best_acceptance(folder),
                                .resumed = resumed ? std::optional(resumed->checkpoint) : std::nullopt},
                               pipeline.table(), recorder, inputs.hooks);
  if (start.owes_evaluation) offer_owed(start, initial.state(), checkpoints);
  initial.release();
  pipeline.run(start, recorder, checkpoints);
  recorder.close();
  TrainResult result{.step = start.step + pipeline.drafter_zero().work().steps,
                     .steps = inputs.steps,
                     .checkpoint = *checkpoints.last_written(),
                     .evaluation = pipeline.last_evaluation(),
                     .report = pipeline.report()};
  result.report.first_step = start.step + 1;
  result.report.last_step = result.step;
  atomic_write_file(folder.report(), report_json(result.report));
  return result;
}

}  // namespace

TrainResult train(const TrainRequest& request) {
  const RunFolder folder{request.config.output};
  prepare_run_folder(folder, request.existing);
  const FolderLock lock(folder.path);
  const RunInputs& data = request.inputs;
  const std::int64_t steps = resolve_steps(request.config, data.train, data.shapes.budget);
  std::optional<Resumed> resumed;
  if (request.existing == ExistingFolder::resume) resumed = find_resumed(request, folder, steps);
  const PipelineInputs inputs{.config = request.config,
                              .shapes = data.shapes,
                              .train = data.train,
                              .evaluation = data.evaluation ? &*data.evaluation : nullptr,
                              .steps = steps,
                              .hooks = request.hooks,
                              .stop_signal = request.stop_signal};
  return request.config.train.compute == DType::bf16 ? train_as<bf16>(request, folder, inputs, resumed)
                                                     : train_as<float>(request, folder, inputs, resumed);
}

}  // namespace draftsmith
