// From a checkpoint of a run to its drafter for serving.
#pragma once

#include <filesystem>
#include <string>

#include "train/checkpoint.h"
#include "train/run_folder.h"

namespace draftsmith {

struct ExportedRun {
  CheckpointFolder checkpoint;
  std::filesystem::path folder;
  bool best = false;  // it is the run's best by acceptance
};

// which: "best" (the newest where nothing was evaluated), "last", or a step. Replaces what was exported
// before. Needs the run's folder alone. Throws Error.
ExportedRun export_run(const RunFolder& folder, const std::string& which);

}  // namespace draftsmith
