// A folder that is whole or absent: written aside under a temporary name, checksummed, made durable, then
// renamed into place. checksums.json in it lists every file with its size and CRC-32C.
#pragma once

#include <filesystem>
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
  // is replaced in one step: a crash leaves the old one or the new one.
  void commit();

 private:
  std::filesystem::path final_path_;
  std::filesystem::path temporary_path_;
};

// Reads every listed file; an Error names the first that is missing, has another size or another checksum.
// Files that are not listed do not matter.
void verify_snapshot(const std::filesystem::path& folder);

// Whether `folder` has a readable list and every listed file by its size. Contents are not read.
bool is_complete_snapshot(const std::filesystem::path& folder);

// Removes what killed runs left under temporary names in `folder`, and says their names. The caller holds the
// folder's lock, so that nobody is still writing them.
std::vector<std::string> remove_stale_temporaries(const std::filesystem::path& folder);

}  // namespace draftsmith
