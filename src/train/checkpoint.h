// A checkpoint is a folder that is whole or absent (data/snapshot.h):
//   state.safetensors  master.NAME, first_moment.NAME, second_moment.NAME for every weight, float32
//   state.json         step, data position, counters, the evaluation after the step and what it was made on
//   config.yaml        the resolved configuration
//   drafter.json       the drafter's config.json, as it is exported
//   choices.json       the algorithms of the products (train/choices_file.h)
// With the same data, configuration and choices, training goes on from it bit for bit: randomness is a pure function
// of seed, epoch and document, so these numbers are all of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "kernels/product_choices.h"
#include "metrics/record.h"
#include "model/weights.h"
#include "train/corpus_identity.h"
#include "train/optimizer.h"
#include "train/run_folder.h"
#include "train/sampler.h"
#include "train/target_identity.h"

namespace draftsmith {

// How steps have gone; part of the state.
struct StepCounters {
  std::int64_t updates = 0;           // steps that were applied
  std::int64_t skipped = 0;           // steps whose loss or gradient was not finite
  std::int64_t skipped_in_a_row = 0;  // up to now

  bool operator==(const StepCounters&) const = default;
};

struct CheckpointFacts {
  std::int64_t step = 0;  // the last that was made
  StepCounters counters;
  DataPosition position;  // where packing goes on
  double wall_s = 0;      // of training so far
  CorpusIdentity data;
  std::optional<TargetIdentity> target;        // none in a checkpoint that does not say
  std::optional<EvaluationRecord> evaluation;  // of this very state
  std::optional<CorpusIdentity> evaluated_on;  // none in a checkpoint without evaluation or that does not say
};

struct CheckpointContents {
  const CheckpointFacts& facts;
  const std::string& config_text;
  const std::string& choices_text;
  const DrafterShape& drafter;
  const WeightTable& table;  // of that drafter
  TrainedState state;
};
// Replaces what has that name. before_commit is called when all files are written aside. Blocks on the disk.
void write_checkpoint(const std::filesystem::path& folder, const CheckpointContents& contents,
                      const std::function<void()>& before_commit);

// Throw Error for what is missing, broken or of another shape.
CheckpointFacts read_checkpoint_facts(const std::filesystem::path& folder);
std::string read_checkpoint_config(const std::filesystem::path& folder);
ProductChoices read_checkpoint_choices(const std::filesystem::path& folder);
DrafterShape read_checkpoint_drafter(const std::filesystem::path& folder);
void read_checkpoint_state(const std::filesystem::path& folder, const WeightTable& table,
                           const TrainedState& state);

// Warns of each folder, of a step beyond `after`, that is no complete checkpoint by its list of files.
void warn_of_incomplete_checkpoints(const RunFolder& folder, std::int64_t after = -1);

// What differs from the list of files of a checkpoint, in words; nothing when it is whole. Reads all of it.
std::optional<std::string> damage_of(const std::filesystem::path& folder);

// The newest complete checkpoint, its contents verified; warns of newer ones that are not complete. Throws Error when
// there is none, and when it is damaged: then the message names the newest older one that is whole, and what to do.
CheckpointFolder newest_checkpoint(const RunFolder& folder);

// What the newest checkpoint that holds an evaluation says.
std::optional<CheckpointFacts> newest_evaluated(const RunFolder& folder);

// The one with the highest acceptance among those that were evaluated on the same as the newest evaluated one, the
// earlier of equals; nothing when none was evaluated.
std::optional<CheckpointFolder> best_checkpoint(const RunFolder& folder);

// The highest acceptance that was measured on `evaluated_on`; 0 when none was.
double best_acceptance(const RunFolder& folder, const std::optional<CorpusIdentity>& evaluated_on);

// Keeps the newest `keep` and the best, removes the others. While an export reads them: removes none and returns false,
// or waits for its end.
enum class WhileExported { skip, wait };
bool prune_checkpoints(const RunFolder& folder, std::int64_t keep,
                       WhileExported while_exported = WhileExported::skip);

}  // namespace draftsmith
