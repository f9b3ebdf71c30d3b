#include "data/snapshot.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/error.h"
#include "data/checksum.h"
#include "data/file.h"
#include "data/json_fields.h"

namespace draftsmith {
namespace {

struct ListedFile {
  std::string name;  // relative to the snapshot's folder
  std::int64_t size_bytes;
  std::uint32_t checksum;
};

ListedFile measure(const std::filesystem::path& folder, const std::string& name) {
  const MappedFile file(folder / name);
  return {name, static_cast<std::int64_t>(file.bytes().size()), crc32c(file.bytes())};
}

std::string write_list(const std::vector<ListedFile>& files) {
  JsonArray items;
  for (const ListedFile& file : files)
    items.push_back({JsonObject{{"name", {file.name}},
                                {"bytes", {file.size_bytes}},
                                {"crc32c", {static_cast<std::int64_t>(file.checksum)}}}});
  return write_json({JsonObject{{"files", {std::move(items)}}}}, JsonLayout::indented);
}

// Nobody can get a list again, as the parser's errors advise.
JsonValue parse_list(const std::filesystem::path& path, std::string_view advice) {
  const std::string text = read_text_file(path);
  try {
    return parse_json(text, path.string());
  } catch (const Error&) {
    throw Error(fmt::format("{}: expected the list of a snapshot's files, found {} bytes that are none{}{}",
                            path.string(), text.size(), advice.empty() ? "" : "; ", advice));
  }
}

// `advice`, if any, ends the error of a list that is missing or no list.
std::vector<ListedFile> read_list(const std::filesystem::path& folder, std::string_view advice = "") {
  const std::filesystem::path path = folder / kChecksumFile;
  if (!std::filesystem::exists(path))
    throw Error(fmt::format("{}: expected a complete snapshot with {}, found no such file{}{}",
                            folder.string(), kChecksumFile, advice.empty() ? "" : "; ", advice));
  const std::string source = path.string();
  const JsonValue document = parse_list(path, advice);
  std::vector<ListedFile> files;
  for (const JsonValue& item : JsonFields(source, "", document).list("files")) {
    const JsonFields fields(source, "files.", item);
    files.push_back(
        {.name = fields.text("name"),
         .size_bytes = fields.integer("bytes", {}),
         .checksum = static_cast<std::uint32_t>(fields.integer("crc32c", {.least = 0, .most = 0xffffffff}))});
  }
  return files;
}

std::string missing(const std::filesystem::path& path, const ListedFile& expected) {
  return fmt::format("{}: expected a file of {} bytes, found none", path.string(), expected.size_bytes);
}

std::string of_another_size(const std::filesystem::path& path, const ListedFile& expected,
                            std::int64_t found_bytes) {
  return fmt::format("{}: expected {} bytes, found {}", path.string(), expected.size_bytes, found_bytes);
}

// Syncs every file and folder below `folder`, then the folder itself.
void sync_tree(const std::filesystem::path& folder) {
  for (const auto& item : std::filesystem::recursive_directory_iterator(folder))
    item.is_directory() ? sync_folder(item.path()) : sync_file(item.path());
  sync_folder(folder);
}

void remove_all_of(const std::filesystem::path& path) {
  std::error_code failure;
  std::filesystem::remove_all(path, failure);
  if (failure) throw_file_error(path, "remove", failure.value());
}

// None, too, where the list cannot be read.
std::optional<std::vector<ListedFile>> find_list(const std::filesystem::path& folder) {
  try {
    return read_list(folder);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// By its list, which is among them; empty without one that can be read.
std::set<std::filesystem::path> listed_in(const std::filesystem::path& folder) {
  std::set<std::filesystem::path> names;
  if (const auto list = find_list(folder)) {
    names.insert(kChecksumFile);
    for (const ListedFile& file : *list) names.insert(file.name);
  }
  return names;
}

// The files and links in `folder` that are none of `own`, by name.
std::vector<std::filesystem::path> beside(const std::filesystem::path& folder,
                                          const std::set<std::filesystem::path>& own) {
  std::vector<std::filesystem::path> others;
  for (const auto& item : std::filesystem::recursive_directory_iterator(folder)) {
    const std::filesystem::path name = item.path().lexically_relative(folder);
    const bool is_folder = item.is_directory() && !item.is_symlink();
    if (!is_folder && !own.contains(name)) others.push_back(name);
  }
  std::sort(others.begin(), others.end());
  return others;
}

void sync_folders(const std::filesystem::path& folder) {
  for (const auto& item : std::filesystem::recursive_directory_iterator(folder))
    if (item.is_directory() && !item.is_symlink()) sync_folder(item.path());
  sync_folder(folder);
}

// Gives the files in `from` that no list names a second name in `to`, where none has theirs: until `from` is removed
// both have them, so that no crash loses one.
void keep_strangers(const std::filesystem::path& from, const std::filesystem::path& to) {
  const std::vector<std::filesystem::path> strangers = strangers_in(from);
  for (const std::filesystem::path& name : strangers) {
    std::error_code failure;
    if (std::filesystem::exists(std::filesystem::symlink_status(to / name, failure))) continue;
    std::filesystem::create_directories((to / name).parent_path(), failure);
    if (::linkat(AT_FDCWD, (from / name).c_str(), AT_FDCWD, (to / name).c_str(), 0) == 0) continue;
    const int reason = errno;
    throw Error(
        fmt::format("{}: this folder is to be replaced, but holds {}, which cannot be kept ({}); move it "
                    "elsewhere and try again",
                    from.string(), name.string(), std::generic_category().message(reason)));
  }
  if (!strangers.empty()) sync_folders(to);
}

// The kernel's lock of a temporary folder, which ends with the process that writes it; -1 where it is not to be had.
int lock_temporary(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0 || ::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return descriptor;
  ::close(descriptor);
  return -1;
}

// Whether it ends a temporary name: -PROCESS-ATTEMPT.
bool numbers_a_temporary(std::string_view text) {
  return text.starts_with('-') && std::count(text.begin(), text.end(), '-') == 2 &&
         text.find_first_not_of("-0123456789") == text.npos;
}

}  // namespace

SnapshotWriter::SnapshotWriter(std::filesystem::path final_path)
    : final_path_(std::move(final_path)),
      temporary_path_(create_temporary_folder(final_path_)),
      lock_(lock_temporary(temporary_path_)) {}

SnapshotWriter::~SnapshotWriter() {
  if (lock_ >= 0) ::close(lock_);
  std::error_code ignored;
  if (!temporary_path_.empty()) std::filesystem::remove_all(temporary_path_, ignored);
}

std::filesystem::path SnapshotWriter::file(const std::filesystem::path& name) const {
  DRAFTSMITH_CHECK(!temporary_path_.empty(), "nothing is written after commit");
  std::filesystem::path path = temporary_path_ / name;
  std::error_code failure;
  std::filesystem::create_directories(path.parent_path(), failure);
  if (failure) throw_file_error(path.parent_path(), "create", failure.value());
  return path;
}

void SnapshotWriter::commit(Strangers strangers,
                            const std::function<void(const std::filesystem::path&)>& check) {
  DRAFTSMITH_CHECK(!temporary_path_.empty(), "a snapshot is committed once");
  std::vector<ListedFile> files;
  for (const auto& item : std::filesystem::recursive_directory_iterator(temporary_path_))
    if (item.is_regular_file())
      files.push_back(measure(temporary_path_, item.path().lexically_relative(temporary_path_).string()));
  std::sort(files.begin(), files.end(),
            [](const ListedFile& a, const ListedFile& b) { return a.name < b.name; });
  atomic_write_file(temporary_path_ / kChecksumFile, write_list(files));
  sync_tree(temporary_path_);
  const bool replaces = std::filesystem::exists(final_path_);
  if (strangers == Strangers::stay && std::filesystem::is_directory(final_path_)) {
    keep_strangers(final_path_, temporary_path_);
  }

  const auto rename = [&] {
    return ::renameat2(AT_FDCWD, temporary_path_.c_str(), AT_FDCWD, final_path_.c_str(),
                       replaces ? RENAME_EXCHANGE : 0) == 0;
  };
  if (!rename())
    throw_file_error(final_path_, replaces ? "replace this folder (remove it first)" : "rename to this name",
                     errno);
  try {
    if (replaces && check) check(temporary_path_);
  } catch (...) {
    if (!rename()) throw_file_error(final_path_, "give this name back to what had it", errno);
    throw;
  }
  const std::filesystem::path replaced = std::exchange(temporary_path_, {});
  sync_folder(parent_folder(final_path_));
  if (replaces) remove_all_of(replaced);
}

void verify_snapshot(const std::filesystem::path& folder, const SnapshotCheck& check) {
  for (const ListedFile& expected : read_list(folder, check.advice)) {
    if (!check.only.empty() &&
        std::find(check.only.begin(), check.only.end(), expected.name) == check.only.end())
      continue;
    const std::filesystem::path path = folder / expected.name;
    if (!std::filesystem::is_regular_file(path))
      throw Error(fmt::format("{}; {}", missing(path, expected), check.advice));
    const ListedFile found = measure(folder, expected.name);
    if (found.size_bytes != expected.size_bytes)
      throw Error(fmt::format("{}; {}", of_another_size(path, expected, found.size_bytes), check.advice));
    if (found.checksum != expected.checksum)
      throw Error(fmt::format("{}: expected checksum {:08x}, found {:08x}; {}", path.string(),
                              expected.checksum, found.checksum, check.advice));
  }
}

std::vector<std::filesystem::path> strangers_in(const std::filesystem::path& folder) {
  return beside(folder, listed_in(folder));
}

std::vector<std::filesystem::path> removed_with_snapshot(const std::filesystem::path& folder,
                                                         std::span<const std::string_view> usual) {
  std::set<std::filesystem::path> own = listed_in(folder);
  if (own.empty()) own.insert(usual.begin(), usual.end());
  if (!std::filesystem::is_directory(folder) || own.empty() || beside(folder, own).empty()) return {folder};
  std::vector<std::filesystem::path> paths;
  for (const std::filesystem::path& name : own) paths.push_back(folder / name);
  return paths;
}

std::optional<std::string> gap_in_snapshot(const std::filesystem::path& folder) {
  try {
    for (const ListedFile& expected : read_list(folder)) {
      const std::filesystem::path path = folder / expected.name;
      std::error_code failure;
      const auto size_bytes = std::filesystem::file_size(path, failure);
      if (failure) return missing(path, expected);
      if (static_cast<std::int64_t>(size_bytes) != expected.size_bytes) {
        return of_another_size(path, expected, static_cast<std::int64_t>(size_bytes));
      }
    }
    return std::nullopt;
  } catch (const Error& error) {
    return error.what();
  }
}

bool is_complete_snapshot(const std::filesystem::path& folder) { return !gap_in_snapshot(folder); }

void remove_abandoned_snapshots(const std::filesystem::path& final_path) {
  const std::string start = std::string(kTemporaryPrefix) + final_path.filename().string();
  std::vector<std::filesystem::path> found;
  for (const auto& item : std::filesystem::directory_iterator(parent_folder(final_path))) {
    const std::string name = item.path().filename().string();
    if (name.starts_with(start) && numbers_a_temporary(name.substr(start.size())))
      found.push_back(item.path());
  }
  for (const std::filesystem::path& folder : found) {
    const int lock = lock_temporary(folder);
    if (lock < 0) continue;
    ::close(lock);
    remove_all_of(folder);
  }
}

std::vector<std::string> remove_stale_temporaries(const std::filesystem::path& folder) {
  std::error_code failure;
  const std::filesystem::directory_iterator items(folder, failure);
  if (failure) throw_file_error(folder, "list", failure.value());
  std::vector<std::string> names;
  for (const auto& item : items)
    if (item.path().filename().string().starts_with(kTemporaryPrefix))
      names.push_back(item.path().filename().string());
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) remove_all_of(folder / name);
  return names;
}

}  // namespace draftsmith
