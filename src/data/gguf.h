// GGUF files, versions 2 and 3, little-endian, read through a mapping. The layout is
//   "GGUF" · version u32 · tensor count u64 · pair count u64 · key-value pairs (gguf_metadata.h)
//   · for every tensor: name, dimension count u32, sizes u64 from the innermost out, type u32, offset u64
//   · padding to the alignment ("general.alignment", 32 when absent) · the data that offsets count from
// No number is trusted: counts, lengths, sizes, types and offsets that do not fit the file or each other,
// names that stand twice, offsets that are not aligned and tensors that overlap are Errors that name file,
// tensor, expected and found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/file.h"
#include "data/gguf_blocks.h"
#include "data/gguf_metadata.h"

namespace draftsmith {

// A view: the bytes belong to the file and end with it. Rows are whole blocks.
struct GgufTensor {
  std::string label;  // "<file>: tensor '<name>'", for errors
  GgufType type = GgufType::f32;
  std::vector<std::int64_t> shape;  // row-major: the innermost size last
  std::span<const std::byte> bytes;

  std::int64_t columns() const { return shape.empty() ? 1 : shape.back(); }
  std::int64_t row_bytes() const {
    const GgufTypeInfo& info = gguf_type_info(type);
    return columns() / info.block_values * info.block_bytes;
  }
  std::int64_t rows() const { return static_cast<std::int64_t>(bytes.size()) / row_bytes(); }

  // values: [columns]
  void read_row(std::int64_t row, std::span<float> values) const;
};

// Constant after construction: any thread may read it. Tensors live as long as the object.
class GgufFile {
 public:
  explicit GgufFile(const std::filesystem::path& path);
  // From memory that outlives the object; `name` stands for the path in errors.
  GgufFile(std::span<const std::byte> bytes, const std::string& name);

  const std::string& name() const { return name_; }
  const GgufMetadata& metadata() const { return *metadata_; }
  // Nullptr when the file has no such tensor.
  const GgufTensor* find(std::string_view name) const;
  // Sorted.
  std::vector<std::string> names() const;

 private:
  void parse(std::span<const std::byte> bytes);

  std::string name_;
  MappedFile file_;
  std::optional<GgufMetadata> metadata_;  // always there after construction
  std::map<std::string, GgufTensor, std::less<>> tensors_;
};

}  // namespace draftsmith
