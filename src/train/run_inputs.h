// What a run reads before it begins: the target's shape and tokenizer, and the conversations.
#pragma once

#include <optional>

#include "data/corpus.h"
#include "train/run_config.h"
#include "train/run_shapes.h"

namespace draftsmith {

struct RunInputs {
  RunShapes shapes;
  Corpus train;
  std::optional<Corpus> evaluation;
};

// Throws Error for what is missing, broken or does not fit. Blocks while it reads.
RunInputs load_run_inputs(const RunConfig& config);

}  // namespace draftsmith
