// Writes one safetensors file as a stream: all tensors are declared first, their bytes follow in the declared
// order, in pieces of any size. The file stands under a temporary name until finish(), which makes it durable
// and renames it; an unfinished one is removed by the destructor. Failures to write (a full disk) are Errors
// with the path and the system's reason.
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

struct TensorDeclaration {
  std::string name;
  FileType type = FileType::bf16;
  std::vector<std::int64_t> shape;
};

// One thread writes. Calls block on the disk.
class SafetensorsWriter {
 public:
  // "format": "pt" is always in the metadata; `metadata` is added.
  SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorDeclaration> tensors,
                    const std::map<std::string, std::string>& metadata = {});

  // The next elements of `name`, which must be the first declared tensor that is not full. Values are given
  // in the declared type or, for float, in f32 or (rounded to nearest even) bf16.
  void write(std::string_view name, std::span<const float> values);
  void write(std::string_view name, std::span<const bf16> values);
  void write(std::string_view name, std::span<const std::int64_t> values);
  // As bytes of any declared type.
  void write_bytes(std::string_view name, std::span<const std::byte> bytes);

  // All declared tensors must be full.
  void finish();

 private:
  FileType expect(std::string_view name) const;
  void skip_full_tensors();

  std::vector<TensorDeclaration> tensors_;
  std::vector<std::int64_t> sizes_bytes_;
  AtomicFile file_;
  std::size_t current_ = 0;
  std::int64_t written_bytes_ = 0;  // of the current tensor
};

}  // namespace draftsmith
