// Keeps two runs out of one folder. The lock is the kernel's and ends with the process, however it ends; the
// file .lock stays and holds the number of the last process that had it.
#pragma once

#include <filesystem>

namespace draftsmith {

class FolderLock {
 public:
  // Does not block: an Error names the process that holds the folder.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace draftsmith
