// Keeps two processes, such as two runs, out of one folder. The lock is the kernel's and ends with the process, however it
// ends; the file .lock stays and holds the number of the last process that had it.
#pragma once

#include <filesystem>
#include <memory>

namespace draftsmith {

class FolderLock {
 public:
  // Does not block: an Error names the process that holds the folder.
  explicit FolderLock(const std::filesystem::path& folder);
  // Blocks until no process holds the folder; says whom it waits for.
  static std::unique_ptr<FolderLock> wait(const std::filesystem::path& folder);
  // Null while a process holds the folder.
  static std::unique_ptr<FolderLock> if_free(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;
};

}  // namespace draftsmith
