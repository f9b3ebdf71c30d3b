#undef _FORTIFY_SOURCE  // its inline functions have the names that are defined here

#include "power_cut/disk_journal.h"

#include <cerrno>
#include <cstdarg>
#include <mutex>
#include <optional>
#include <string_view>

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

namespace draftsmith {
namespace {

using Kind = DiskEvent::Kind;

struct Journal {
  std::recursive_mutex mutex;  // held from before a call to after it, so that the order is the disk's
  std::string folder;          // empty: nothing is written down
  std::vector<DiskEvent> events;
};

Journal& journal() {
  static Journal journal;
  return journal;
}

// The next function of that name: what this program would have called.
template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

std::string absolute(int folder, const char* path) {
  if (path[0] == '/') return path;
  char target[4096];
  const std::string link = "/proc/self/" + (folder == AT_FDCWD ? "cwd" : "fd/" + std::to_string(folder));
  const ssize_t length = ::readlink(link.c_str(), target, sizeof target);
  return std::string(target, length > 0 ? static_cast<std::size_t>(length) : 0) + "/" + path;
}

// Relative to the journal's folder; nothing for what lies elsewhere.
std::optional<std::string> place(int folder, const char* path) {
  if (journal().folder.empty() || path == nullptr) return std::nullopt;
  const std::string text = std::filesystem::path(absolute(folder, path)).lexically_normal().string();
  if (text == journal().folder) return "";
  if (!text.starts_with(journal().folder + "/") || text.ends_with("/.lock")) return std::nullopt;
  return text.substr(journal().folder.size() + 1);
}

// Of an open file; nothing for one that has no name any more.
std::optional<std::string> place(int descriptor) {
  if (journal().folder.empty()) return std::nullopt;
  char target[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t length = ::readlink(link.c_str(), target, sizeof target - 1);
  if (length <= 0) return std::nullopt;
  target[length] = '\0';
  if (std::string_view(target).ends_with(" (deleted)")) return std::nullopt;
  return place(AT_FDCWD, target);
}

// Makes the call, and writes the event down when it succeeded. errno stays the call's.
template <typename Call>
auto recorded(Kind kind, const std::optional<std::string>& path, const Call& call) {
  const auto result = call();
  const int error = errno;
  if (result >= 0 && path) journal().events.push_back({.kind = kind, .path = *path});
  errno = error;
  return result;
}

int open_recorded(const char* name, const char* path, int flags, mode_t mode) {
  const std::lock_guard lock(journal().mutex);
  auto* const open = real<int(const char*, int, ...)>(name);
  std::optional<std::string> made;
  if ((flags & O_CREAT) != 0 && ::access(path, F_OK) != 0) made = place(AT_FDCWD, path);
  return recorded(Kind::make_file, made, [&] { return open(path, flags, mode); });
}

int rename_recorded(const char* from, const char* to, unsigned flags) {
  const std::lock_guard lock(journal().mutex);
  const auto old_place = place(AT_FDCWD, from), new_place = place(AT_FDCWD, to);
  const int result = real<int(int, const char*, int, const char*, unsigned)>("renameat2")(
      AT_FDCWD, from, AT_FDCWD, to, flags);
  if (result == 0 && old_place && new_place) {
    const Kind kind = (flags & RENAME_EXCHANGE) != 0 ? Kind::exchange : Kind::rename;
    journal().events.push_back({.kind = kind, .path = *old_place, .other = *new_place});
  }
  return result;
}

// The disk that matters is the simulated one: nobody waits for the real one.
int sync_recorded(int descriptor) {
  const std::lock_guard lock(journal().mutex);
  return recorded(Kind::sync, place(descriptor), [] { return 0; });
}

int remove_recorded(const char* name, const char* path) {
  const std::lock_guard lock(journal().mutex);
  return recorded(Kind::remove, place(AT_FDCWD, path), [&] { return real<int(const char*)>(name)(path); });
}

mode_t mode_of(int flags, std::va_list& arguments) {
  return (flags & O_CREAT) != 0 ? static_cast<mode_t>(va_arg(arguments, unsigned)) : 0;
}

}  // namespace

DiskJournal::DiskJournal(const std::filesystem::path& folder) {
  const std::lock_guard lock(journal().mutex);
  journal().folder = std::filesystem::absolute(folder).lexically_normal().string();
  journal().events.clear();
}

DiskJournal::~DiskJournal() {
  const std::lock_guard lock(journal().mutex);
  journal().folder.clear();
}

void DiskJournal::mark(const std::string& text) {
  const std::lock_guard lock(journal().mutex);
  journal().events.push_back({.kind = Kind::mark, .path = text});
}

const std::vector<DiskEvent>& DiskJournal::events() const { return journal().events; }

}  // namespace draftsmith

// The system's calls.
extern "C" {

using namespace draftsmith;

int open(const char* path, int flags, ...) {
  std::va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_recorded("open", path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  std::va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_recorded("open64", path, flags, mode);
}

ssize_t write(int descriptor, const void* bytes, std::size_t count) {
  const std::lock_guard lock(journal().mutex);
  const ssize_t written = real<ssize_t(int, const void*, std::size_t)>("write")(descriptor, bytes, count);
  const int error = errno;
  if (const auto path = written > 0 ? place(descriptor) : std::nullopt) {
    const auto* const begin = static_cast<const char*>(bytes);
    journal().events.push_back({.kind = DiskEvent::Kind::write,
                                .path = *path,
                                .offset = ::lseek(descriptor, 0, SEEK_CUR) - written,
                                .bytes = {begin, begin + written}});
  }
  errno = error;
  return written;
}

int fsync(int descriptor) { return sync_recorded(descriptor); }
int fdatasync(int descriptor) { return sync_recorded(descriptor); }

int mkdir(const char* path, mode_t mode) noexcept {
  const std::lock_guard lock(journal().mutex);
  return recorded(DiskEvent::Kind::make_folder, place(AT_FDCWD, path),
                  [&] { return real<int(const char*, mode_t)>("mkdir")(path, mode); });
}

int rename(const char* from, const char* to) noexcept { return rename_recorded(from, to, 0); }
int renameat2(int, const char* from, int, const char* to, unsigned flags) noexcept {
  return rename_recorded(from, to, flags);  // this program names no folders by descriptors
}

int unlink(const char* path) noexcept { return remove_recorded("unlink", path); }
int rmdir(const char* path) noexcept { return remove_recorded("rmdir", path); }
int remove(const char* path) noexcept { return remove_recorded("remove", path); }
int unlinkat(int folder, const char* path, int flags) noexcept {
  const std::lock_guard lock(journal().mutex);
  return recorded(DiskEvent::Kind::remove, place(folder, path),
                  [&] { return real<int(int, const char*, int)>("unlinkat")(folder, path, flags); });
}
}
