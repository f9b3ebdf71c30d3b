// safetensors files, read through a mapping. The layout is
//   8 bytes: N, little-endian · N bytes: a JSON object, padded by spaces · the data, row-major
// with one member a tensor, {"dtype", "shape", "data_offsets": [begin, end)} relative to the data, and
// "__metadata__", texts by name. No number is trusted: a header beyond the file or 100 MB, a key that stands
// twice, an unknown dtype, a shape whose size overflows or is not end - begin, and ranges that leave holes,
// overlap or pass the end are Errors that name file, tensor, expected and found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/file.h"
#include "data/tensor_entry.h"

namespace draftsmith {

inline constexpr std::int64_t kSafetensorsHeaderLimit_bytes = 100'000'000;

// Constant after construction: any thread may read it. Entries live as long as the object.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);
  // From memory that outlives the object; `name` stands for the path in errors.
  SafetensorsFile(std::span<const std::byte> bytes, const std::string& name);

  // Nullptr when the file has no such tensor.
  const TensorEntry* find(std::string_view name) const;
  // An Error listing the nearest names when the file has no such tensor.
  const TensorEntry& at(std::string_view name) const;
  // Sorted.
  std::vector<std::string> names() const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  void parse(std::span<const std::byte> bytes);

  std::filesystem::path path_;
  MappedFile file_;
  std::map<std::string, TensorEntry, std::less<>> entries_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace draftsmith
