#include "train/trainer.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "base/counted.h"
#include "base/error.h"
#include "base/failure_text.h"
#include "base/log.h"
#include "data/file.h"
#include "data/folder_lock.h"
#include "metrics/recorder.h"
#include "train/choices_file.h"
#include "train/divergence.h"
#include "train/initial_state.h"
#include "train/memory_check.h"
#include "train/pipeline.h"
#include "train/resolve.h"
#include "train/resumed_run.h"
#include "train/target_identity.h"

namespace draftsmith {
namespace {

StartingPoint starting_point(const std::optional<ResumedRun>& resumed, const PipelineInputs& inputs) {
  if (!resumed) return {};
  const CheckpointFacts& facts = resumed->facts;
  StartingPoint start{
      .step = facts.step, .counters = facts.counters, .position = facts.position, .wall_s = facts.wall_s};
  start.owes_evaluation =
      !facts.evaluation && plan_sequence(inputs, plan_evaluation(inputs), start).evaluates_after(facts.step);
  return start;
}

std::optional<CorpusIdentity> identify_evaluation(const TrainRequest& request) {
  const std::optional<Corpus>& corpus = request.inputs.evaluation;
  if (!corpus) return std::nullopt;
  return identify(*corpus, request.config.train.eval.conversations);
}

void announce(const TrainRequest& request, Recorder& recorder, std::int64_t steps) {
  const DrafterShape& drafter = request.inputs.shapes.drafter;
  const CorpusCounts& counts = request.inputs.train.counts();
  const bool bf16 = request.config.train.compute == DType::bf16;
  recorder.say(
      fmt::format("{} documents ({} skipped, {} cut), {} tokens of which {} supervised; {} steps in {}\n"
                  "drafter: {}, taps [{}], blocks of {}, mask token {}, {:.2f} M weights",
                  request.inputs.train.size(), counts.skipped, counts.truncated, counts.tokens,
                  counts.supervised_tokens, steps, bf16 ? "bf16" : "float32",
                  counted(drafter.layers, "layer"), fmt::join(drafter.taps, ", "), drafter.block_size,
                  drafter.mask_token_id, static_cast<double>(drafter_weight_table(drafter).size) / 1e6));
}

void announce_resumed(const TrainRequest& request, const ResumedRun& resumed, Recorder& recorder) {
  const std::string& target = request.config.target;
  recorder.say(fmt::format(
      "resuming after step {}{}{}", resumed.facts.step,
      request.retune ? ", with new choices of products: other bits from here on" : "",
      target == resumed.target
          ? ""
          : fmt::format("; the target is now in {}, the same as it was in {}", target, resumed.target)));
}

void announce_other_evaluation(const RunFolder& folder, const std::optional<CorpusIdentity>& evaluated_on,
                               Recorder& recorder) {
  const auto newest = newest_evaluated(folder);
  if (!newest || comparable(newest->evaluated_on, evaluated_on)) return;
  recorder.say(
      "the evaluation data is not what steps before were scored on: scores are compared from here on only");
}

InitialState initial_state(const WeightTable& table, const PipelineInputs& inputs,
                           const std::optional<ResumedRun>& resumed) {
  if (resumed) return {table, resumed->checkpoint.path};
  return {table, inputs.config, inputs.shapes};
}

// A checkpoint that was written when a signal stopped the run has no evaluation: the one it owes becomes part
// of it.
void offer_owed(const StartingPoint& start, CheckpointThread& checkpoints) {
  checkpoints.submit_initial({.step = start.step,
                              .counters = start.counters,
                              .position = start.position,
                              .wall_s = start.wall_s,
                              .due = true,
                              .awaits_evaluation = true});
}

// A log that was cut or moved away goes on, and says so.
void announce_missing(const std::filesystem::path& log, const std::vector<MissingSteps>& missing,
                      Recorder& recorder) {
  if (missing.empty()) return;
  std::vector<std::string> ranges;
  for (const MissingSteps& range : missing) {
    ranges.push_back(range.first == range.last ? fmt::format("{}", range.first)
                                               : fmt::format("{}..{}", range.first, range.last));
  }
  recorder.say(fmt::format(
      "{}: the log goes on without what was before: it has no entries of step{} {}", log.string(),
      missing.size() == 1 && missing[0].first == missing[0].last ? "" : "s", fmt::join(ranges, ", ")));
}

// Everything that can fail at the start has not: only now what an older run left is touched. Says which steps the log
// lacks.
std::vector<MissingSteps> begin_folder(const TrainRequest& request, const RunFolder& folder,
                                       const StartingPoint& start, const std::string& choices) {
  if (request.existing == ExistingFolder::overwrite) empty_run_folder(folder);
  atomic_write_file(folder.config(), std::string(kRunMark) + request.config_text);
  atomic_write_file(folder.choices(), choices);
  make_folders(folder.checkpoints());
  return cut_to_step(folder.metrics(), start.step,
                     start.owes_evaluation ? LastEntry::step : LastEntry::evaluation);
}

// A run can end before a divergence has lasted long enough to stop it.
void refuse_diverged(const TrainResult& result, const StepCounters& counters) {
  const bool steps = counters.skipped_in_a_row > 0;
  if (result.stopped() || (!steps && (!result.evaluation || std::isfinite(result.evaluation->loss)))) return;
  throw Error(
      fmt::format("the run has diverged: {} not finite. Nothing is exported; its last checkpoint is {}. {}",
                  steps ? fmt::format("in the last {} of {} steps the loss or the gradient was",
                                      counters.skipped_in_a_row, result.steps)
                        : std::string("the held-out loss after the last step is"),
                  result.checkpoint.path.string(), divergence_advice(counters)));
}

constexpr int kStopForLog = -1;  // no signal's number

// A log that cannot be written came before all that it led to.
[[noreturn]] void throw_log_failure(const std::exception& log, const std::exception_ptr& then,
                                    const std::optional<CheckpointFolder>& last) {
  std::string text = failure_text(log);
  try {
    if (then) std::rethrow_exception(then);
  } catch (const std::exception& failure) {
    text += fmt::format("; then {}", failure_text(failure));
  }
  if (!last)
    throw Error(text + ". The run has no checkpoint: see to the log, then begin anew with --overwrite");
  throw Error(fmt::format("{}. The newest checkpoint is {}: see to the log, then go on with --resume", text,
                          last->path.string()));
}

// A run that fails says from where it can go on, unless its failure does.
[[noreturn]] void throw_failure(const std::exception_ptr& failure,
                                const std::optional<CheckpointFolder>& last) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& found) {
    const std::string text = failure_text(found);
    if (!last || text.find("--resume") != text.npos || text.find(last->path.string()) != text.npos) throw;
    throw Error(fmt::format("{}. The newest checkpoint is {}: when that is put right, go on with --resume",
                            text, last->path.string()));
  }
}

template <typename T>
void run_pipeline(Pipeline<T>& pipeline, const StartingPoint& start, Recorder& recorder,
                  CheckpointThread& checkpoints) {
  std::exception_ptr failure;
  try {
    pipeline.run(start, recorder, checkpoints);
  } catch (...) {
    failure = std::current_exception();
  }
  try {
    recorder.close();
  } catch (const std::exception& log) {
    throw_log_failure(log, failure, checkpoints.last_written());
  }
  if (failure) throw_failure(failure, checkpoints.last_written());
}

template <typename T>
TrainResult train_as(const TrainRequest& request, const RunFolder& folder, const PipelineInputs& inputs,
                     const std::optional<ResumedRun>& resumed) {
  const StartingPoint start = starting_point(resumed, inputs);
  if (resumed && start.step >= inputs.steps && !start.owes_evaluation) {
    TrainResult done{.step = start.step,
                     .steps = inputs.steps,
                     .checkpoint = resumed->checkpoint,
                     .evaluation = resumed->facts.evaluation,
                     .report = std::nullopt};
    refuse_diverged(done, start.counters);
    return done;
  }
  SetUpTimes times;
  std::optional<AddTime> set_up(std::in_place, times.total_s);
  Pipeline<T> pipeline(inputs);
  ProductChoices choices;
  if (resumed && !request.retune) choices = read_checkpoint_choices(resumed->checkpoint.path);
  pipeline.measure(Preparation::sizes, choices);
  const std::string lack = memory_lack(pipeline, inputs);
  if (!lack.empty()) throw Error(lack);
  timed(times.products_s, [&] { pipeline.measure(Preparation::products, choices); });
  const std::string chosen = choices_text(choices.all());
  timed(times.allocate_s, [&] { pipeline.allocate(); });
  InitialState initial =
      timed(times.first_state_s, [&] { return initial_state(pipeline.table(), inputs, resumed); });
  pipeline.set_up(initial.state(), start, times);
  const std::vector<MissingSteps> missing = begin_folder(request, folder, start, chosen);
  Recorder recorder(LogFile(folder.metrics()), Progress(request.progress(inputs.steps)), [&request] {
    int none = 0;
    request.stop_signal.compare_exchange_strong(none, kStopForLog);
  });
  const RecorderLogSink log(recorder);
  announce(request, recorder, inputs.steps);
  const std::optional<CorpusIdentity> evaluated_on = identify_evaluation(request);
  if (resumed) {
    announce_resumed(request, *resumed, recorder);
    announce_other_evaluation(folder, evaluated_on, recorder);
  }
  announce_missing(folder.metrics(), missing, recorder);
  CheckpointThread checkpoints({.folder = folder,
                                .config_text = request.config_text,
                                .choices_text = chosen,
                                .drafter = inputs.shapes.drafter,
                                .data = identify(inputs.train),
                                .target = identify_target(request.config.target, kTargetSamples),
                                .evaluated_on = evaluated_on,
                                .keep = inputs.config.train.checkpoint.keep,
                                .best_acceptance = best_acceptance(folder, evaluated_on),
                                .resumed = resumed ? std::optional(resumed->checkpoint) : std::nullopt},
                               pipeline.table(), std::move(initial), recorder, inputs.hooks);
  if (start.owes_evaluation) offer_owed(start, checkpoints);
  set_up.reset();
  run_pipeline(pipeline, start, recorder, checkpoints);
  TrainResult result{.step = start.step + pipeline.drafter_zero().work().steps,
                     .steps = inputs.steps,
                     .checkpoint = *checkpoints.last_written(),
                     .evaluation = pipeline.last_evaluation(),
                     .report = pipeline.report()};
  result.owes_evaluation =
      plan_sequence(inputs, plan_evaluation(inputs), start).evaluates_after(result.step) &&
      (!result.evaluation || result.evaluation->step < result.step);
  result.report->set_up = times;
  result.report->first_step = start.step + 1;
  result.report->last_step = result.step;
  atomic_write_file(folder.report(), report_json(*result.report));
  refuse_diverged(result, pipeline.drafter_zero().counters());
  return result;
}

}  // namespace

TrainResult train(const TrainRequest& request) {
  const RunFolder folder{request.config.output};
  prepare_run_folder(folder, request.existing);
  const RunConfig& config = request.config;
  if (request.existing == ExistingFolder::overwrite) {
    check_overwrite_keeps(folder, {{"drafter.init", config.drafter.init},
                                   {"target", config.target},
                                   {"data.train", config.data.train},
                                   {"data.eval", config.data.eval}});
  }
  const FolderLock lock(folder.path);
  const RunInputs& data = request.inputs;
  const std::int64_t steps = resolve_steps(request.config, data.train, data.shapes.budget);
  std::optional<ResumedRun> resumed;
  if (request.existing == ExistingFolder::resume) resumed = find_resumed_run(request, folder);
  remove_leftovers(folder);
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
