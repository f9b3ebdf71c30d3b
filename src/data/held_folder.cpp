#include "data/held_folder.h"

#include <cerrno>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/file.h"

namespace draftsmith {

HeldFolder::HeldFolder(std::filesystem::path path)
    : path_(std::move(path)), descriptor_(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor_ < 0) throw_file_error(path_, "open", errno);
}

HeldFolder::~HeldFolder() { ::close(descriptor_); }

std::optional<std::filesystem::path> HeldFolder::place() const {
  if (is_at(path_)) return path_;
  // The kernel's name of it, which of a removed folder leads nowhere.
  std::error_code failure;
  const std::filesystem::path now =
      std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor_), failure);
  if (!failure && is_at(now)) return now;
  return std::nullopt;
}

bool HeldFolder::is_at(const std::filesystem::path& path) const {
  struct stat held = {}, found = {};
  return ::fstat(descriptor_, &held) == 0 && ::stat(path.c_str(), &found) == 0 &&
         held.st_dev == found.st_dev && held.st_ino == found.st_ino;
}

}  // namespace draftsmith
