// From a checkpoint of a run to its drafter for serving.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "train/checkpoint.h"
#include "train/run_folder.h"

namespace draftsmith {

// Of which checkpoint an export is, and of which target (origin.json).
struct ExportOrigin {
  std::int64_t step = 0;
  std::optional<double> acceptance;            // held-out; none where it was not evaluated
  std::optional<CorpusIdentity> evaluated_on;  // none where that is not said
  std::optional<TargetIdentity> target;        // likewise
};

struct ExportedRun {
  CheckpointFolder checkpoint;
  std::filesystem::path folder;
  bool best = false;                 // it is the run's best by acceptance
  std::optional<double> acceptance;  // of the checkpoint
  std::optional<ExportOrigin> kept;  // an older export that stays instead: nothing was written
};

// which: "best" (the newest where nothing was evaluated), "last", or a step. Replaces what was exported
// before, but "best" does not replace a whole export of a higher acceptance on the same conversations, whose checkpoint is
// damaged or gone. Needs the run's folder alone. Throws Error.
ExportedRun export_run(const RunFolder& folder, const std::string& which);

// The target that an export's drafter was trained on; none where its origin.json, or none, does not say. Throws Error for
// one that cannot be read.
std::optional<TargetIdentity> exported_target(const std::filesystem::path& folder);

}  // namespace draftsmith
