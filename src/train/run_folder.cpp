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
#include "model/drafter_export.h"

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

// What empty_run_folder removes.
std::vector<fs::path> removed_by_overwrite(const RunFolder& folder) {
  std::vector<fs::path> paths{folder.checkpoints(), folder.choices(), folder.metrics(), folder.report(),
                              folder.path / "eval.json"};
  for (const fs::path& path : removed_with_snapshot(folder.exported(), kExportedFiles)) paths.push_back(path);
  return paths;
}

// Whether `path` is `folder` or in it; both without links.
bool lies_in(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

// A file, or a folder and the files in it, without links.
std::vector<fs::path> places_of(const fs::path& path) {
  std::vector<fs::path> places{fs::weakly_canonical(path)};
  if (!fs::is_directory(path)) return places;
  for (const auto& item : fs::directory_iterator(path)) {
    if (item.is_regular_file()) places.push_back(fs::canonical(item.path()));
  }
  return places;
}

// A path through what is not there yet leads, once that is made, to what nobody has looked at.
void refuse_detour(const fs::path& path) {
  const fs::path place = fs::weakly_canonical(path);
  if (fs::exists(path) || !fs::exists(place)) return;
  throw Error(
      fmt::format("{}: expected a path of folders that are there, found one that goes through what is "
                  "not; write {}",
                  path.string(), place.string()));
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
  if (!fs::exists(folder.config())) return false;
  std::ifstream stream = open_stream(folder.config(), "this run's configuration");
  std::string first_line;
  return std::getline(stream, first_line) && first_line + '\n' == kRunMark;
}

fs::path RunFolder::checkpoint(std::int64_t step) const {
  return checkpoints() / fmt::format("{}{:08}", kStepPrefix, step);
}

void check_export_place(const RunFolder& folder) {
  const fs::path path = folder.exported();
  const fs::file_status status = fs::symlink_status(path);
  if (!fs::exists(status) || fs::is_directory(status)) return;
  throw Error(fmt::format(
      "{}: expected the folder of an export or nothing, found {}, which no export replaces; move it "
      "elsewhere and try again",
      path.string(), fs::is_symlink(status) ? "a link to " + fs::read_symlink(path).string() : "a file"));
}

void prepare_run_folder(const RunFolder& folder, ExistingFolder existing) {
  const std::string name = folder.path.string();
  refuse_detour(folder.path);
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
    return check_export_place(folder);
  }
  if (fs::exists(folder.path) && holds_anything(folder.path)) {
    // By the first that a run writes and the last that it is without.
    const bool is_run = is_run_folder(folder);
    const bool resumes = !list_checkpoints(folder).empty();
    if (existing == ExistingFolder::refuse && (is_run || resumes)) {
      throw Error(fmt::format("{}: the folder is there already. {}{}output=… names another folder", name,
                              resumes ? "--resume goes on with the run in it, " : "",
                              !is_run ? ""
                              : fs::exists(folder.exported())
                                  ? "--overwrite removes that run, its export too, and begins anew, "
                                  : "--overwrite removes that run and begins anew, "));
    }
    if (!is_run) {
      throw Error(
          fmt::format("{}: expected a new or empty folder or a run's, whose config.yaml begins with \"{}\", "
                      "found something else, which --overwrite does not remove; choose another output. If it "
                      "is a run of an older draftsmith, or its config.yaml was edited, remove the folder "
                      "yourself",
                      name, kRunMark.substr(0, kRunMark.size() - 1)));
    }
    check_export_place(folder);
  }
  make_folders(folder.path);
}

void check_overwrite_keeps(const RunFolder& folder, const std::vector<RunInputPath>& inputs) {
  const std::vector<fs::path> removed = removed_by_overwrite(folder);
  for (const RunInputPath& input : inputs) {
    if (input.path.empty()) continue;
    const std::vector<fs::path> places = places_of(input.path);
    for (const fs::path& path : removed) {
      const fs::path gone = fs::weakly_canonical(path);
      if (std::none_of(places.begin(), places.end(),
                       [&](const fs::path& place) { return lies_in(place, gone); }))
        continue;
      throw Error(
          fmt::format("{}: {} is or lies in {}, which --overwrite removes; choose another output, or copy it "
                      "elsewhere and name the copy",
                      input.option, input.path.string(), path.string()));
    }
  }
}

void empty_run_folder(const RunFolder& folder) {
  std::unique_ptr<FolderLock> exporting;
  if (fs::is_directory(folder.checkpoints())) exporting = FolderLock::wait(folder.checkpoints());
  for (const fs::path& written : removed_by_overwrite(folder)) fs::remove_all(written);
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

std::vector<std::string> gaps_in_checkpoints(const RunFolder& folder, std::int64_t after) {
  std::vector<std::string> gaps;
  if (!fs::is_directory(folder.checkpoints())) return gaps;
  for (const auto& item : fs::directory_iterator(folder.checkpoints())) {
    const auto step = step_of(item.path());
    if (!step || *step <= after) continue;
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
