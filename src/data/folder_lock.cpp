#include "data/folder_lock.h"

#include <cerrno>
#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "data/file.h"

namespace draftsmith {
namespace {

std::filesystem::path lock_file(const std::filesystem::path& folder) { return folder / ".lock"; }

int open_lock(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) throw_file_error(path, "open", errno);
  return descriptor;
}

// Closes the descriptor, then throws.
[[noreturn]] void fail(int descriptor, const std::filesystem::path& path, int error_number) {
  ::close(descriptor);
  throw_file_error(path, "lock", error_number);
}

enum class WhenHeld { give_up, wait };

// Takes the lock and writes down by whom; false where another process has it and it is not to wait.
bool take(int descriptor, const std::filesystem::path& path, WhenHeld when_held) {
  while (::flock(descriptor, when_held == WhenHeld::wait ? LOCK_EX : LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return false;
    if (errno != EINTR) fail(descriptor, path, errno);
  }
  const std::string process = std::to_string(::getpid());
  if (::ftruncate(descriptor, 0) != 0) fail(descriptor, path, errno);
  if (::pwrite(descriptor, process.data(), process.size(), 0) != static_cast<ssize_t>(process.size()))
    fail(descriptor, path, errno);
  return true;
}

std::string holder_of(int descriptor) {
  std::string holder(32, '\0');
  const ssize_t length = ::pread(descriptor, holder.data(), holder.size(), 0);
  holder.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  return holder.empty() ? "(unknown)" : holder;
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder) : descriptor_(open_lock(lock_file(folder))) {
  if (take(descriptor_, lock_file(folder), WhenHeld::give_up)) return;
  const std::string holder = holder_of(descriptor_);
  ::close(descriptor_);
  throw Error(
      fmt::format("{}: expected a folder that no other run uses, found it held by process {}; "
                  "wait for it, stop it, or choose another output",
                  folder.string(), holder));
}

std::unique_ptr<FolderLock> FolderLock::wait(const std::filesystem::path& folder) {
  if (auto lock = if_free(folder)) return lock;
  const int descriptor = open_lock(lock_file(folder));
  log_info(fmt::format("{}: waiting for process {}, which holds it", folder.string(), holder_of(descriptor)));
  take(descriptor, lock_file(folder), WhenHeld::wait);
  return std::unique_ptr<FolderLock>(new FolderLock(descriptor));
}

std::unique_ptr<FolderLock> FolderLock::if_free(const std::filesystem::path& folder) {
  const int descriptor = open_lock(lock_file(folder));
  if (take(descriptor, lock_file(folder), WhenHeld::give_up)) {
    return std::unique_ptr<FolderLock>(new FolderLock(descriptor));
  }
  ::close(descriptor);
  return nullptr;
}

FolderLock::~FolderLock() { ::close(descriptor_); }

}  // namespace draftsmith
