#include "data/folder_lock.h"

#include <cerrno>
#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/error.h"
#include "data/file.h"

namespace draftsmith {
namespace {

// Closes the descriptor, then throws; the constructor's object has no destructor yet.
[[noreturn]] void fail(int descriptor, const std::filesystem::path& path, int error_number) {
  ::close(descriptor);
  throw_file_error(path, "lock", error_number);
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / ".lock";
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw_file_error(path, "open", errno);
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) fail(descriptor_, path, errno);
    std::string holder(32, '\0');
    const ssize_t length = ::pread(descriptor_, holder.data(), holder.size(), 0);
    holder.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
    ::close(descriptor_);
    throw Error(
        fmt::format("{}: expected a folder that no other run uses, found it held by process {}; "
                    "wait for it, stop it, or choose another output",
                    folder.string(), holder.empty() ? "(unknown)" : holder));
  }
  const std::string process = std::to_string(::getpid());
  if (::ftruncate(descriptor_, 0) != 0) fail(descriptor_, path, errno);
  if (::pwrite(descriptor_, process.data(), process.size(), 0) != static_cast<ssize_t>(process.size()))
    fail(descriptor_, path, errno);
}

FolderLock::~FolderLock() { ::close(descriptor_); }

}  // namespace draftsmith
