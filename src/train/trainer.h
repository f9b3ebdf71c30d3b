// A training run from its folder to its report. Read this file first, then train/pipeline.h for the threads
// and train/device_thread.cpp for one step.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "metrics/progress.h"
#include "train/checkpoint.h"
#include "train/hooks.h"
#include "train/report.h"
#include "train/run_config.h"
#include "train/run_folder.h"
#include "train/run_inputs.h"

namespace draftsmith {

struct TrainRequest {
  const RunConfig& config;  // resolved, compute too
  const RunInputs& inputs;
  std::string config_text;  // the resolved configuration, as saved
  ExistingFolder existing = ExistingFolder::refuse;
  bool retune = false;  // resume with products chosen anew; the bits then differ
  // Reads a checkpoint's configuration. Throws Error when it cannot be resumed with `config`.
  std::function<RunConfig(const std::string& config_text, const std::string& place)> check_resumed_config;
  // Where the progress goes, given the run's steps.
  std::function<ProgressSettings(std::int64_t steps)> progress;
  // Not 0: the end is asked for, by a signal's number or by a log that cannot be written. The step is finished
  // and a checkpoint written.
  std::atomic<int>& stop_signal;
  PipelineHooks hooks;
};

struct TrainResult {
  std::int64_t step = 0;   // the last that was made
  std::int64_t steps = 0;  // of the whole run
  CheckpointFolder checkpoint;
  std::optional<EvaluationRecord> evaluation;  // the last one
  bool owes_evaluation = false;                // it was stopped before the one after `step`
  std::optional<TrainReport> report;           // none where a resumed run had nothing left to do

  bool stopped() const { return step < steps || owes_evaluation; }
};

// Blocks until the run is done or stopped. Throws Error, or what the first thread that failed threw. When the
// log cannot be written the run stops as by a signal, and the Error names the checkpoint to go on from.
// A run that has diverged by its end is an Error too; its checkpoints stay.
TrainResult train(const TrainRequest& request);

}  // namespace draftsmith
