// The run that --resume goes on with: its newest checkpoint, held against what is asked for now.
#pragma once

#include <string>

#include "train/checkpoint.h"
#include "train/run_folder.h"
#include "train/trainer.h"

namespace draftsmith {

struct ResumedRun {
  CheckpointFolder checkpoint;
  CheckpointFacts facts;
  std::string target;  // where it was: it may have moved
};

// Throws Error for a checkpoint that is missing or damaged (newest_checkpoint), and for a configuration, training data
// or a target with which the run would not be the same. A target may lie elsewhere if it holds the same.
ResumedRun find_resumed_run(const TrainRequest& request, const RunFolder& folder);

}  // namespace draftsmith
