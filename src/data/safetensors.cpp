#include "data/safetensors.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "base/nearest.h"
#include "data/json.h"

namespace draftsmith {
namespace {

constexpr std::int64_t kPrefix_bytes = 8;
constexpr std::string_view kMetadataKey = "__metadata__";

struct Range {
  std::int64_t begin, end;
};

// What is there instead of a header's length, as far as it can be told.
std::string describe_beginning(std::span<const std::byte> file, std::uint64_t length) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()),
                              std::min<std::size_t>(file.size(), 40));
  if (text.starts_with("version https://git-lfs.github.com/spec/"))
    return "a Git LFS pointer, which stands for the file: fetch it with git lfs pull";
  const auto readable = [](char letter) {
    return (letter >= ' ' && letter <= '~') || letter == '\n' || letter == '\r' || letter == '\t';
  };
  if (!std::all_of(text.begin(), text.end(), readable))
    return fmt::format("a length of {}; is this a safetensors file?", length);
  return fmt::format("text that begins with {}; take the file again from where the model came",
                     describe_json({std::string(text)}));
}

// The header's length, checked against the file and the limit.
std::int64_t read_header_bytes(std::span<const std::byte> file, const std::string& name) {
  if (file.size() < kPrefix_bytes)
    throw Error(fmt::format("{}: expected a safetensors file of at least {} bytes, found {}; copy it again",
                            name, kPrefix_bytes, file.size()));
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  if (length > static_cast<std::uint64_t>(kSafetensorsHeaderLimit_bytes))
    throw Error(fmt::format("{}: expected a safetensors file with a header of at most {} bytes, found {}",
                            name, kSafetensorsHeaderLimit_bytes, describe_beginning(file, length)));
  if (length > file.size() - kPrefix_bytes)
    throw Error(
        fmt::format("{}: the header says it has {} bytes, but only {} follow; "
                    "the file is cut short, copy it again",
                    name, length, file.size() - kPrefix_bytes));
  return static_cast<std::int64_t>(length);
}

// Reads one member of the header; every function throws with the tensor's label.
class EntryReader {
 public:
  EntryReader(const std::string& label, const JsonValue& value)
      : label_(label), members_(value.get<JsonObject>()) {
    if (!members_) fail("an object with dtype, shape and data_offsets", value);
  }

  FileType type() const {
    const JsonValue& value = member("dtype");
    const auto* name = value.get<std::string>();
    const std::optional<FileType> type = name ? find_file_type(*name) : std::nullopt;
    if (!type) fail("a dtype among " + file_type_names(), value);
    return *type;
  }

  std::vector<std::int64_t> shape() const { return whole_numbers("shape"); }

  Range range() const {
    const std::vector<std::int64_t> offsets = whole_numbers("data_offsets");
    if (offsets.size() != 2) fail("data_offsets of two numbers", member("data_offsets"));
    return {offsets[0], offsets[1]};
  }

 private:
  const JsonValue& member(std::string_view key) const {
    const JsonValue* value = find_member(*members_, key);
    if (!value) throw Error(fmt::format("{}: expected the key \"{}\", found none", label_, key));
    return *value;
  }

  std::vector<std::int64_t> whole_numbers(std::string_view key) const {
    const JsonValue& value = member(key);
    const std::string expected = fmt::format("{}, a list of whole numbers from 0", key);
    const auto* list = value.get<JsonArray>();
    if (!list) fail(expected, value);
    std::vector<std::int64_t> numbers;
    for (const JsonValue& item : *list) {
      const auto* number = item.get<std::int64_t>();
      if (!number || *number < 0) fail(expected, value);
      numbers.push_back(*number);
    }
    return numbers;
  }

  [[noreturn]] void fail(const std::string& expected, const JsonValue& found) const {
    throw Error(fmt::format("{}: expected {}, found {}", label_, expected, describe_json(found)));
  }

  const std::string& label_;
  const JsonObject* members_;
};

TensorEntry read_entry(const std::string& label, const JsonValue& value, std::span<const std::byte> data) {
  const EntryReader reader(label, value);
  const FileType type = reader.type();
  std::vector<std::int64_t> shape = reader.shape();
  const Range range = reader.range();
  if (range.begin > range.end || static_cast<std::uint64_t>(range.end) > data.size())
    throw Error(
        fmt::format("{}: expected data_offsets in order and within the {} bytes of data, "
                    "found [{}, {}]; the file is cut short or damaged, copy it again",
                    label, data.size(), range.begin, range.end));
  const std::optional<std::int64_t> count = element_count(shape);
  const std::int64_t element_bytes = static_cast<std::int64_t>(file_type_bytes(type));
  const std::int64_t found = range.end - range.begin;
  if (!count || found % element_bytes != 0 || found / element_bytes != *count)
    throw Error(fmt::format("{}: expected the bytes of {} {}, found data_offsets [{}, {}] of {} bytes", label,
                            file_type_name(type), describe_shape(shape), range.begin, range.end, found));
  const auto bytes = data.subspan(static_cast<std::size_t>(range.begin), static_cast<std::size_t>(found));
  return {.label = label, .type = type, .shape = std::move(shape), .bytes = bytes};
}

// The ranges must tile the data: no hole, no overlap, nothing behind the last.
void check_tiling(std::vector<const TensorEntry*> entries, std::span<const std::byte> data,
                  const std::string& name) {
  const auto begin = [&](const TensorEntry* entry) { return entry->bytes.data() - data.data(); };
  std::sort(entries.begin(), entries.end(), [&](const TensorEntry* a, const TensorEntry* b) {
    return std::pair(begin(a), a->bytes.size()) < std::pair(begin(b), b->bytes.size());
  });
  std::ptrdiff_t covered = 0;
  for (const TensorEntry* entry : entries) {
    if (begin(entry) != covered)
      throw Error(
          fmt::format("{}: expected its data to start at byte {}, where the tensor before it ends, "
                      "found {} ({})",
                      entry->label, covered, begin(entry), begin(entry) < covered ? "an overlap" : "a hole"));
    covered += static_cast<std::ptrdiff_t>(entry->bytes.size());
  }
  if (covered != static_cast<std::ptrdiff_t>(data.size()))
    throw Error(fmt::format("{}: expected {} bytes of data by the header, found {}; copy the file again",
                            name, covered, data.size()));
}

std::map<std::string, std::string> read_metadata(const JsonValue& value, const std::string& name) {
  const auto* members = value.get<JsonObject>();
  if (!members)
    throw Error(fmt::format("{}: expected {} to be an object of texts, found {}", name, kMetadataKey,
                            describe_json(value)));
  std::map<std::string, std::string> metadata;
  for (const JsonMember& member : *members) {
    const auto* text = member.value.get<std::string>();
    if (!text)
      throw Error(fmt::format("{}: expected a text for \"{}\" in {}, found {}", name, member.key,
                              kMetadataKey, describe_json(member.value)));
    metadata.emplace(member.key, *text);
  }
  return metadata;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path), file_(path) {
  parse(file_.bytes());
}

SafetensorsFile::SafetensorsFile(std::span<const std::byte> bytes, const std::string& name) : path_(name) {
  parse(bytes);
}

void SafetensorsFile::parse(std::span<const std::byte> bytes) {
  const std::string name = path_.string();
  const std::int64_t header_bytes = read_header_bytes(bytes, name);
  const std::span<const std::byte> data =
      bytes.subspan(static_cast<std::size_t>(kPrefix_bytes + header_bytes));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kPrefix_bytes,
                              static_cast<std::size_t>(header_bytes));
  const JsonValue header = text.starts_with('{') ? parse_json(text, name) : JsonValue{};
  const auto* members = header.get<JsonObject>();
  if (!members)
    throw Error(
        fmt::format("{}: expected the header to start with '{{', found {}; "
                    "is this a safetensors file?",
                    name, text.empty() ? "nothing" : describe_json({std::string(text.substr(0, 1))})));
  std::vector<const TensorEntry*> entries;
  for (const JsonMember& member : *members) {
    if (member.key == kMetadataKey) {
      metadata_ = read_metadata(member.value, name);
      continue;
    }
    const std::string label = fmt::format("{}: tensor '{}'", name, member.key);
    entries.push_back(&entries_.emplace(member.key, read_entry(label, member.value, data)).first->second);
  }
  check_tiling(std::move(entries), data, name);
}

const TensorEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second;
}

const TensorEntry& SafetensorsFile::at(std::string_view name) const {
  if (const TensorEntry* entry = find(name)) return *entry;
  throw Error(fmt::format("{}: expected a tensor '{}', found none; the nearest of {} names: {}",
                          path_.string(), name, entries_.size(),
                          join(nearest_names(name, names(), 3), ", ")));
}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

}  // namespace draftsmith
