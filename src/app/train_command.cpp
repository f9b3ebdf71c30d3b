// Trains a drafter: run.yaml and overrides in, a run's folder with checkpoints and the exported drafter out.
#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "app/commands.h"
#include "app/config.h"
#include "app/config_warnings.h"
#include "app/resume_check.h"
#include "app/stop_signals.h"
#include "base/error.h"
#include "model/target.h"
#include "train/resolve.h"
#include "train/trainer.h"

namespace draftsmith {
namespace {

namespace fs = std::filesystem;

ExistingFolder existing_folder(const TrainArguments& arguments) {
  if (arguments.resume) return ExistingFolder::resume;
  return arguments.overwrite ? ExistingFolder::overwrite : ExistingFolder::refuse;
}

// A run's own config.yaml names the folder where the run began. Going on in that one is not what is meant by the
// configuration of a folder that was moved, and another run may be there by now.
void refuse_moved_run(const TrainArguments& arguments, const RunConfig& config) {
  const RunFolder lies{fs::path(arguments.config).parent_path()};
  const bool said = std::any_of(arguments.overrides.begin(), arguments.overrides.end(),
                                [](const std::string& text) { return text.starts_with("output="); });
  if (existing_folder(arguments) == ExistingFolder::refuse || said || !fs::exists(arguments.config) ||
      !is_run_folder(lies) || !fs::equivalent(lies.config(), arguments.config)) {
    return;
  }
  std::error_code absent;
  if (fs::equivalent(lies.path.empty() ? "." : lies.path, config.output, absent) && !absent) return;
  throw Error(fmt::format(
      "{0}: this run began in {1}, and lies in {2} now. To go on with it say output={2}; to train into {1} "
      "say output={1}",
      arguments.config, config.output, lies.path.empty() ? "." : lies.path.string()));
}

// As a shell reads it back.
std::string quoted(const std::string& text) {
  const std::string_view safe = "/._-+=,:@%~";
  const bool plain = std::all_of(text.begin(), text.end(), [&](unsigned char c) {
    return std::isalnum(c) != 0 || c >= 0x80 || safe.find(static_cast<char>(c)) != safe.npos;
  });
  if (plain) return text;
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

// The run is complete before what is printed matters: a closed output, on which fmt::print would throw, is found by main().
template <typename... Values>
void print(fmt::format_string<Values...> format, Values&&... values) {
  std::fputs(fmt::format(format, std::forward<Values>(values)...).c_str(), stdout);
}

}  // namespace

int run_train(const TrainArguments& arguments) {
  // A run goes on without the terminal that it was started from; what then cannot be printed is main()'s error at the end.
  std::signal(SIGPIPE, SIG_IGN);
  const StopSignals signals("finishing the step");
  RunConfig config = load_config({.path = arguments.config, .overrides = arguments.overrides});
  refuse_moved_run(arguments, config);
  warn_of_config(config);
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
    print("{}", report_text(*result.report));
  } else {
    print("all {} steps were made before\n", result.steps);
  }
  if (result.evaluation) {
    print("evaluation after step {}: loss {}, acceptance {} over {} conversations\n", result.evaluation->step,
          fixed_text(result.evaluation->loss, 4), fixed_text(result.evaluation->acceptance, 3),
          result.evaluation->conversations);
  }
  print("checkpoint: {}\n", result.checkpoint.path.string());
  if (!result.stopped()) return run_export({.run = config.output});
  print("stopped after step {} of {}; to go on: draftsmith train {} --resume\n", result.step, result.steps,
        quoted(RunFolder{config.output}.config().string()));
  return 128 + signals.received();
}

}  // namespace draftsmith
