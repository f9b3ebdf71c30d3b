#include "train/run_folder.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "base/error.h"
#include "data/file.h"
#include "data/folder_lock.h"
#include "data/snapshot.h"

namespace draftsmith {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStepPrefix = "step-";

std::optional<std::int64_t> step_of(const fs::path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* const end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data() + kStepPrefix.size(), end, step);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return step;
}

// Whether there is anything but a lock and what a killed start left unfinished.
bool holds_anything(const fs::path& folder) {
  return std::any_of(fs::directory_iterator(folder), fs::directory_iterator(), [](const auto& item) {
    const std::string name = item.path().filename().string();
    return name != ".lock" && !name.starts_with(kTemporaryPrefix);
  });
}

}  // namespace

bool is_run_folder(const RunFolder& folder) {
  std::ifstream stream(folder.config(), std::ios::binary);
  std::string first_line;
  return std::getline(stream, first_line) && first_line + '\n' == kRunMark;
}

fs::path RunFolder::checkpoint(std::int64_t step) const {
  return checkpoints() / fmt::format("{}{:08}", kStepPrefix, step);
}

void prepare_run_folder(const RunFolder& folder, ExistingFolder existing) {
  const std::string name = folder.path.string();
  if (fs::exists(folder.path) && !fs::is_directory(folder.path)) {
    throw Error(fmt::format("{}: expected a folder for the run, found a file; choose another output", name));
  }
  if (existing == ExistingFolder::resume) {
    if (!fs::is_directory(folder.checkpoints())) {
      if (!fs::exists(folder.config()))
        throw Error(fmt::format("{}: there is no run to resume; leave --resume out to begin one", name));
      throw Error(
          fmt::format("{}: expected the checkpoints of this run, found no such folder; put it back, "
                      "or begin anew with --overwrite or another output",
                      folder.checkpoints().string()));
    }
    return;
  }
  if (fs::exists(folder.path) && holds_anything(folder.path)) {
    if (existing == ExistingFolder::refuse) {
      throw Error(
          fmt::format("{}: the folder is there already. {}--overwrite removes that run{} and begins anew, "
                      "output=… names another folder",
                      name, list_checkpoints(folder).empty() ? "" : "--resume goes on with the run in it, ",
                      fs::exists(folder.exported()) ? ", its export too," : ""));
    }
    if (!is_run_folder(folder)) {  // the first that a run writes and the last that it is without
      throw Error(
          fmt::format("{}: expected a run's folder, whose config.yaml begins with \"{}\", found something "
                      "else, which --overwrite does not remove; choose another output. If it is a run of an "
                      "older draftsmith, "
                      "or its config.yaml was edited, remove the folder yourself",
                      name, kRunMark.substr(0, kRunMark.size() - 1)));
    }
  }
  make_folders(folder.path);
}

void empty_run_folder(const RunFolder& folder) {
  std::unique_ptr<FolderLock> exporting;
  if (fs::is_directory(folder.checkpoints())) exporting = FolderLock::wait(folder.checkpoints());
  for (const fs::path& written : {folder.checkpoints(), folder.choices(), folder.metrics(), folder.report(),
                                  folder.path / "eval.json"}) {
    fs::remove_all(written);
  }
  remove_snapshot(folder.exported());
}

void remove_leftovers(const RunFolder& folder) {
  if (!fs::is_directory(folder.checkpoints())) {
    remove_stale_temporaries(folder.path);
  } else if (const auto lock = FolderLock::if_free(folder.checkpoints())) {
    remove_stale_temporaries(folder.path);
    remove_stale_temporaries(folder.checkpoints());
  }
}

std::vector<CheckpointFolder> list_checkpoints(const RunFolder& folder) {
  std::vector<CheckpointFolder> found;
  if (!fs::is_directory(folder.checkpoints())) return found;
  for (const auto& item : fs::directory_iterator(folder.checkpoints())) {
    const auto step = step_of(item.path());
    if (step && is_complete_snapshot(item.path())) found.push_back({.step = *step, .path = item.path()});
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  return found;
}

std::vector<std::string> gaps_in_checkpoints(const RunFolder& folder) {
  std::vector<std::string> gaps;
  if (!fs::is_directory(folder.checkpoints())) return gaps;
  for (const auto& item : fs::directory_iterator(folder.checkpoints())) {
    if (!step_of(item.path())) continue;
    if (auto gap = gap_in_snapshot(item.path())) gaps.push_back(std::move(*gap));
  }
  std::sort(gaps.begin(), gaps.end());
  return gaps;
}

std::string no_complete_checkpoint(const RunFolder& folder) {
  std::string text =
      fmt::format("{}: expected a complete checkpoint, found none", folder.checkpoints().string());
  const std::vector<std::string> gaps = gaps_in_checkpoints(folder);
  for (std::size_t i = 0; i < gaps.size(); ++i) text += (i == 0 ? ": " : "; ") + gaps[i];
  return text;
}

void remove_checkpoint(const CheckpointFolder& checkpoint) {
  const fs::path aside =
      checkpoint.path.parent_path() / (std::string(kTemporaryPrefix) + checkpoint.path.filename().string());
  fs::rename(checkpoint.path, aside);
  fs::remove_all(aside);
}

}  // namespace draftsmith
