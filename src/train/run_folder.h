// The folder of a run, and where things lie in it:
//   config.yaml    the resolved configuration
//   choices.json   the algorithms of the products (train/choices_file.h)
//   metrics.jsonl  one line a step and an evaluation (metrics/log_file.h)
//   report.json    of the last part of the run that ended
//   checkpoints/step-00000100/   (train/checkpoint.h)
//   checkpoints/.lock            held by who exports from a checkpoint or removes one (data/folder_lock.h)
//   export/        the drafter for serving
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace draftsmith {

// The first line of a run's config.yaml, by which --overwrite knows a run's folder from any other.
inline constexpr std::string_view kRunMark = "# A run of draftsmith, as it was resolved.\n";

struct RunFolder {
  std::filesystem::path path;

  std::filesystem::path config() const { return path / "config.yaml"; }
  std::filesystem::path choices() const { return path / "choices.json"; }
  std::filesystem::path metrics() const { return path / "metrics.jsonl"; }
  std::filesystem::path report() const { return path / "report.json"; }
  std::filesystem::path exported() const { return path / "export"; }
  std::filesystem::path checkpoints() const { return path / "checkpoints"; }
  std::filesystem::path checkpoint(std::int64_t step) const;
};

// Whether its config.yaml begins as that of a run.
bool is_run_folder(const RunFolder& folder);

// Throws Error where something that is no folder has the name of the export; a link to one is not followed.
void check_export_place(const RunFolder& folder);

enum class ExistingFolder { refuse, resume, overwrite };

// Makes the folder ready for a run and gives its path back. An existing one that holds anything is refused
// unless told otherwise; `overwrite` empties it if it is a run's folder, never another one. Resuming needs a
// folder that is there. Throws Error.
// Call with the folder unlocked; the caller then locks it (data/folder_lock.h).
void prepare_run_folder(const RunFolder& folder, ExistingFolder existing);

// What a run reads, by the option that names it; an empty path is none.
struct RunInputPath {
  std::string_view option;
  std::filesystem::path path;
};
// Throws Error where empty_run_folder would remove one of them, behind links too.
void check_overwrite_keeps(const RunFolder& folder, const std::vector<RunInputPath>& inputs);

// Removes what a run writes there but its config.yaml, which is replaced; anything else stays, in export/ too. Waits for
// an export that still reads the older run. The caller holds the folder's lock.
void empty_run_folder(const RunFolder& folder);

// Removes what killed processes left under temporary names in the folder and among its checkpoints; nothing while an
// export, which may have begun beside an earlier run, is still writing. The caller holds the folder's lock.
void remove_leftovers(const RunFolder& folder);

struct CheckpointFolder {
  std::int64_t step = 0;
  std::filesystem::path path;
};
// Those that are complete by their list, by step. Contents are not read.
std::vector<CheckpointFolder> list_checkpoints(const RunFolder& folder);

// Of each folder with the name of a checkpoint, of a step beyond `after`, that is not complete by its list, by name: what
// is missing, in words.
std::vector<std::string> gaps_in_checkpoints(const RunFolder& folder, std::int64_t after = -1);

// What an error says of a run without a complete checkpoint: the folder, and the gap in each that is there.
std::string no_complete_checkpoint(const RunFolder& folder);

// Removes one so that a crash leaves it whole or gone.
void remove_checkpoint(const CheckpointFolder& checkpoint);

}  // namespace draftsmith
