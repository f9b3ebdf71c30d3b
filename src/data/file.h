// Files as the data floor uses them: read through a mapping, written to a temporary name beside the final one
// and renamed when complete, so that a name that exists is a file that is whole. Every failure of the system
// is an Error with the path and the system's reason.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

namespace draftsmith {

// Temporary files and folders start with this; a run that was killed leaves them behind.
inline constexpr std::string_view kTemporaryPrefix = ".tmp-";

// A whole file, mapped read-only. A file that is cut short while mapped kills the process that reads it: do
// not edit model files under a running program.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

// Asks the system to read these bytes of a mapped file soon, and none around them. Does not block.
void prefetch(std::span<const std::byte> mapped);

// A file under a temporary name. commit() makes it durable and gives it its final name, replacing what had
// it; without commit() the destructor removes it. Calls block on the disk.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path final_path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void append(std::span<const std::byte> bytes);
  void commit();
  const std::filesystem::path& final_path() const { return final_path_; }

 private:
  std::filesystem::path final_path_;
  std::filesystem::path temporary_path_;
  int descriptor_ = -1;
};

// Replaces `path` by `contents` in one step: readers see the old file or the new one, also after a crash.
void atomic_write_file(const std::filesystem::path& path, std::string_view contents);

// To where a user's path leads: the file behind a link is replaced in one step, and a device or a pipe is written into and
// stays what it is.
void write_result_file(const std::filesystem::path& path, std::string_view contents);

// Throws Error where write_result_file(path) would: for asking before long work. Leaves nothing.
void check_writable(const std::filesystem::path& path);

// A file, a device or a pipe to read from its beginning. Throws Error where it cannot be opened; `what` is expected there,
// as in "this configuration".
std::ifstream open_stream(const std::filesystem::path& path, std::string_view what);

std::string read_text_file(const std::filesystem::path& path);

// Make a file's bytes, or a folder's names, durable.
void sync_file(const std::filesystem::path& path);
void sync_folder(const std::filesystem::path& path);

// Makes the folder and those above it where they are missing, each with a durable name.
void make_folders(const std::filesystem::path& folder);

// A new empty folder beside `final_path`, named by kTemporaryPrefix.
std::filesystem::path create_temporary_folder(const std::filesystem::path& final_path);

// The folder in which `path` lies; "." for a bare name.
std::filesystem::path parent_folder(const std::filesystem::path& path);

// Throws Error: "<path>: cannot <action>: <the system's reason>", and what to do about the usual reasons.
// `error_number` is errno.
[[noreturn]] void throw_file_error(const std::filesystem::path& path, std::string_view action,
                                   int error_number);

}  // namespace draftsmith
