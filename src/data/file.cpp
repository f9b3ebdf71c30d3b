#include "data/file.h"

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/failure_text.h"

namespace draftsmith {
namespace {

// Closes a descriptor at the end of a scope; for descriptors whose close cannot lose written data.
class ScopedDescriptor {
 public:
  explicit ScopedDescriptor(int descriptor) : descriptor_(descriptor) {}
  ~ScopedDescriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  ScopedDescriptor(const ScopedDescriptor&) = delete;
  ScopedDescriptor& operator=(const ScopedDescriptor&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

std::filesystem::path temporary_name(const std::filesystem::path& final_path, int attempt) {
  return parent_folder(final_path) /
         fmt::format("{}{}-{}-{}", kTemporaryPrefix, final_path.filename().string(), ::getpid(), attempt);
}

void write_all(int descriptor, const std::filesystem::path& path, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_file_error(path, "write", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

// A link is followed, to a file that is not there yet too.
std::filesystem::path behind_links(std::filesystem::path path) {
  constexpr int kMostLinks = 40;  // as the system allows
  for (int i = 0; i < kMostLinks && std::filesystem::is_symlink(path); ++i) {
    path = parent_folder(path) / std::filesystem::read_symlink(path);
  }
  return path;
}

bool is_device_or_pipe(const std::filesystem::path& path) {
  return std::filesystem::exists(path) && !std::filesystem::is_regular_file(path);
}

[[noreturn]] void refuse_no_folder(const std::filesystem::path& path) {
  if (!std::filesystem::is_symlink(path))
    throw Error(fmt::format("{}: expected a folder, found a file; name another path", path.string()));
  throw Error(
      fmt::format("{}: expected a folder, found a link to {}, which is no folder; make that folder, or name "
                  "another path",
                  path.string(), std::filesystem::read_symlink(path).string()));
}

void sync_path(const std::filesystem::path& path, int flags) {
  const ScopedDescriptor file(::open(path.c_str(), flags | O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) throw_file_error(path, "open", errno);
  if (::fsync(file.get()) != 0) throw_file_error(path, "write to the disk", errno);
}

}  // namespace

void throw_file_error(const std::filesystem::path& path, std::string_view action, int error_number) {
  throw Error(fmt::format("{}: cannot {}: {}{}", path.string(), action,
                          std::generic_category().message(error_number), advice_on(error_number)));
}

std::filesystem::path parent_folder(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

MappedFile::MappedFile(const std::filesystem::path& path) {
  const ScopedDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) throw_file_error(path, "open", errno);
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) throw_file_error(path, "read the size", errno);
  if (!S_ISREG(status.st_mode))
    throw Error(fmt::format("{}: expected a file, found a folder or a device", path.string()));
  if (status.st_size == 0) return;
  const std::size_t size = static_cast<std::size_t>(status.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) throw_file_error(path, "map", errno);
  bytes_ = {static_cast<const std::byte*>(address), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

void prefetch(std::span<const std::byte> mapped) {
  const auto page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(mapped.data());
  const std::uintptr_t page = begin / page_bytes * page_bytes;
  ::madvise(reinterpret_cast<void*>(page), begin + mapped.size() - page,
            MADV_WILLNEED);  // a wish: it may fail
}

AtomicFile::AtomicFile(std::filesystem::path final_path) : final_path_(std::move(final_path)) {
  for (int attempt = 0; descriptor_ < 0; ++attempt) {
    temporary_path_ = temporary_name(final_path_, attempt);
    descriptor_ = ::open(temporary_path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST) throw_file_error(final_path_, "create", errno);
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_path_.empty()) ::unlink(temporary_path_.c_str());
}

void AtomicFile::append(std::span<const std::byte> bytes) {
  DRAFTSMITH_CHECK(descriptor_ >= 0, "nothing is written after commit");
  write_all(descriptor_, final_path_, bytes);
}

void AtomicFile::commit() {
  DRAFTSMITH_CHECK(descriptor_ >= 0, "a file is committed once");
  if (::fsync(descriptor_) != 0) throw_file_error(final_path_, "write to the disk", errno);
  if (::close(std::exchange(descriptor_, -1)) != 0) throw_file_error(final_path_, "close", errno);
  if (::rename(temporary_path_.c_str(), final_path_.c_str()) != 0)
    throw_file_error(final_path_, "rename the finished file to this name", errno);
  temporary_path_.clear();
  sync_folder(parent_folder(final_path_));
}

void atomic_write_file(const std::filesystem::path& path, std::string_view contents) {
  AtomicFile file(path);
  file.append(std::as_bytes(std::span(contents)));
  file.commit();
}

void write_result_file(const std::filesystem::path& path, std::string_view contents) {
  if (!is_device_or_pipe(path)) return atomic_write_file(behind_links(path), contents);
  const ScopedDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.get() < 0) throw_file_error(path, "open for writing", errno);
  write_all(file.get(), path, std::as_bytes(std::span(contents)));
}

void check_writable(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path))
    throw Error(fmt::format("{}: expected the name of a file to write, found a folder", path.string()));
  if (!is_device_or_pipe(path)) {
    const AtomicFile file(behind_links(path));
  } else if (::access(path.c_str(), W_OK) != 0) {
    throw_file_error(path, "open for writing", errno);
  }
}

std::ifstream open_stream(const std::filesystem::path& path, std::string_view what) {
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  if (stream && !std::filesystem::is_directory(path)) return stream;
  const std::string action = fmt::format("open {}", what);
  if (stream) throw_file_error(path, action, EISDIR);
  if (errno != ENOENT || path.is_absolute()) throw_file_error(path, action, errno);
  throw Error(fmt::format("{}: cannot {}: {}; relative paths start in {}", path.string(), action,
                          std::generic_category().message(ENOENT), std::filesystem::current_path().string()));
}

std::string read_text_file(const std::filesystem::path& path) {
  const MappedFile file(path);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

void sync_file(const std::filesystem::path& path) { sync_path(path, 0); }

void sync_folder(const std::filesystem::path& path) { sync_path(path, O_DIRECTORY); }

void make_folders(const std::filesystem::path& folder) {
  if (std::filesystem::is_directory(folder)) return;
  const std::filesystem::path parent = parent_folder(folder);
  if (parent != folder) make_folders(parent);
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) throw_file_error(folder, "create", errno);
  if (!std::filesystem::is_directory(folder)) refuse_no_folder(folder);
  sync_folder(parent);
}

std::filesystem::path create_temporary_folder(const std::filesystem::path& final_path) {
  for (int attempt = 0;; ++attempt) {
    std::filesystem::path folder = temporary_name(final_path, attempt);
    if (::mkdir(folder.c_str(), 0777) == 0) return folder;
    if (errno != EEXIST) throw_file_error(final_path, "create", errno);
  }
}

}  // namespace draftsmith
