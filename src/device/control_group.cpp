#include "device/control_group.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <string>
#include <string_view>

namespace draftsmith {
namespace {

namespace fs = std::filesystem;

// The names of a version's files, and of the lines of memory.stat that count pages of files.
struct Names {
  const char *limit, *used;
  std::array<std::string_view, 2> cached;
};
constexpr Names kVersion2 = {"memory.max", "memory.current", {"inactive_file", "active_file"}};
constexpr Names kVersion1 = {
    "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}};

// "max", which limits nothing, is no number.
std::optional<std::int64_t> read_number(const fs::path& path) {
  std::ifstream stream(path);
  std::string text;
  std::int64_t number = 0;
  if (!(stream >> text)) return std::nullopt;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() ? std::optional(number)
                                                                             : std::nullopt;
}

std::int64_t cached_bytes(const fs::path& group, const Names& names) {
  std::ifstream stream(group / "memory.stat");
  std::int64_t sum = 0, value = 0;
  for (std::string key; stream >> key >> value;) {
    if (std::find(names.cached.begin(), names.cached.end(), key) != names.cached.end()) sum += value;
  }
  return sum;
}

std::optional<std::int64_t> left_in(const fs::path& group, const Names& names) {
  const auto limit = read_number(group / names.limit), used = read_number(group / names.used);
  // Version 1 writes "no limit" as a number beyond every machine's memory.
  constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;
  if (!limit || !used || *limit >= kNoLimit) return std::nullopt;
  return std::max<std::int64_t>(0, *limit - *used + cached_bytes(group, names));
}

// Of a group and all above it. In a container the path may be that of the machine outside: then only the root is there.
std::optional<std::int64_t> least_left(const fs::path& root, std::string_view path, const Names& names) {
  std::optional<std::int64_t> least;
  for (fs::path below = fs::path(path).relative_path();; below = below.parent_path()) {
    const auto left = left_in(root / below, names);
    if (left && (!least || *left < *least)) least = left;
    if (below.empty()) return least;
  }
}

}  // namespace

std::optional<std::int64_t> control_group_bytes_left(const ControlGroupFiles& files) {
  std::ifstream stream(files.membership);
  std::optional<std::int64_t> least;
  for (std::string line; std::getline(stream, line);) {  // "0::/path" or "7:memory:/path"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
    const std::string_view path = std::string_view(line).substr(second + 1);
    std::optional<std::int64_t> left;
    if (controllers.empty()) left = least_left(files.root, path, kVersion2);
    if (controllers == "memory") left = least_left(files.root / "memory", path, kVersion1);
    if (left && (!least || *left < *least)) least = left;
  }
  return least;
}

}  // namespace draftsmith
