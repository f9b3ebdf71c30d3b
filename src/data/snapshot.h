// A folder that is whole or absent: written aside under a temporary name, checksummed, made durable, then
// renamed into place. checksums.json in it lists every file with its size and CRC-32C.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace draftsmith {

inline constexpr std::string_view kChecksumFile = "checksums.json";

// One thread writes. Calls block on the disk.
class SnapshotWriter {
 public:
  // Makes a temporary folder beside `final_path`, whose parent must exist.
  explicit SnapshotWriter(std::filesystem::path final_path);
  // Removes the temporary folder unless it was committed.
  ~SnapshotWriter();
  SnapshotWriter(const SnapshotWriter&) = delete;
  SnapshotWriter& operator=(const SnapshotWriter&) = delete;

  // Where the caller writes the file `name`; folders in between are made.
  std::filesystem::path file(const std::filesystem::path& name) const;
  // The folder before commit.
  const std::filesystem::path& folder() const { return temporary_path_; }

  // Lists and syncs all files, and puts the folder in place of `final_path`. A folder that is there already
  // is replaced in one step: a crash leaves the old one or the new one. What its list does not name is somebody else's:
  // it goes with the old one, or is kept in the new one, outside its list, unless a new file has the name.
  enum class Strangers { go, stay };
  // `check`, if any, is given the folder that was replaced, before it is removed; where it throws, all is as it was.
  void commit(Strangers strangers = Strangers::go,
              const std::function<void(const std::filesystem::path&)>& check = {});

 private:
  std::filesystem::path final_path_;
  std::filesystem::path temporary_path_;
  int lock_;  // says that the temporary folder is being written
};

// Reads every listed file, or those of `only`; an Error names the first that is missing, has another size or another
// checksum, and ends with `advice`. Files that are not listed do not matter.
struct SnapshotCheck {
  std::vector<std::string_view> only = {};
  std::string_view advice = "the snapshot is damaged, use another one";
};
void verify_snapshot(const std::filesystem::path& folder, const SnapshotCheck& check = {});

// What a snapshot holds that its list does not name, relative to it: somebody else's files. Everything, without a list.
std::vector<std::filesystem::path> strangers_in(const std::filesystem::path& folder);

// What to remove of a snapshot so that files of others in it stay: the folder, or, beside others, the files that its list
// names; without a list those of the names `usual`, and without these too the folder.
std::vector<std::filesystem::path> removed_with_snapshot(const std::filesystem::path& folder,
                                                         std::span<const std::string_view> usual = {});

// What keeps `folder` from being complete: a list that is missing or cannot be read, or the first listed file that is
// missing or has another size, in words. Nothing when it is complete. Contents are not read.
std::optional<std::string> gap_in_snapshot(const std::filesystem::path& folder);
bool is_complete_snapshot(const std::filesystem::path& folder);

// Removes the temporary folders of snapshots at `final_path` whose writers were killed; one that is being written stays.
void remove_abandoned_snapshots(const std::filesystem::path& final_path);

// Removes what killed runs left under temporary names in `folder`, and says their names. The caller holds the
// folder's lock, so that nobody is still writing them.
std::vector<std::string> remove_stale_temporaries(const std::filesystem::path& folder);

}  // namespace draftsmith
