// Trains a drafter: run.yaml and overrides in, a run's folder with checkpoints and the exported drafter out.
#include <fmt/core.h>

#include "app/commands.h"
#include "app/config.h"
#include "app/resume_check.h"
#include "app/stop_signals.h"
#include "model/target.h"
#include "train/resolve.h"
#include "train/trainer.h"

namespace draftsmith {
namespace {

ExistingFolder existing_folder(const TrainArguments& arguments) {
  if (arguments.resume) return ExistingFolder::resume;
  return arguments.overwrite ? ExistingFolder::overwrite : ExistingFolder::refuse;
}

}  // namespace

int run_train(const TrainArguments& arguments) {
  const StopSignals signals("finishing the step");
  RunConfig config = load_config({.path = arguments.config, .overrides = arguments.overrides});
  config.train.compute = resolve_compute(config.train.compute);
  const RunInputs inputs = load_run_inputs(config);
  fill_resolved(config, inputs.shapes.drafter);
  // What cannot be read costs no older run its folder.
  check_target_weights(config.target, inputs.shapes.target, inputs.shapes.target_layers());
  const TrainResult result = train({.config = config,
                                    .inputs = inputs,
                                    .config_text = save_resolved(config),
                                    .existing = existing_folder(arguments),
                                    .retune = arguments.retune,
                                    .check_resumed_config =
                                        [&](const std::string& saved, const std::string& place) {
                                          return check_resumed_config(config, saved, place);
                                        },
                                    .progress = progress_on_stderr,
                                    .stop_signal = signals.received()});
  if (result.report) {
    fmt::print("{}", report_text(*result.report));
  } else {
    fmt::print("all {} steps were made before\n", result.steps);
  }
  if (result.evaluation) {
    fmt::print("evaluation after step {}: loss {}, acceptance {} over {} conversations\n",
               result.evaluation->step, fixed_text(result.evaluation->loss, 4),
               fixed_text(result.evaluation->acceptance, 3), result.evaluation->conversations);
  }
  fmt::print("checkpoint: {}\n", result.checkpoint.path.string());
  if (!result.stopped()) return run_export({.run = config.output});
  fmt::print("stopped after step {} of {}; to go on: draftsmith train {} --resume\n", result.step,
             result.steps, RunFolder{config.output}.config().string());
  return 128 + signals.received();
}

}  // namespace draftsmith
