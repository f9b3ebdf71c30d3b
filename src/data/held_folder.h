// A folder that is known by itself and not by its path, so that a program which writes by paths notices when the folder
// is moved or removed under it.
#pragma once

#include <filesystem>
#include <optional>

namespace draftsmith {

// Constant after construction: any thread may ask.
class HeldFolder {
 public:
  // Throws Error when there is no such folder.
  explicit HeldFolder(std::filesystem::path path);
  ~HeldFolder();
  HeldFolder(const HeldFolder&) = delete;
  HeldFolder& operator=(const HeldFolder&) = delete;

  // Where the folder is now: the path it was opened by, or that to which it was moved; nothing when it was removed.
  std::optional<std::filesystem::path> place() const;

 private:
  bool is_at(const std::filesystem::path& path) const;

  std::filesystem::path path_;
  int descriptor_;
};

}  // namespace draftsmith
