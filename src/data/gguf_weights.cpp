#include "data/gguf_weights.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "base/error.h"
#include "data/safetensors_writer.h"

namespace draftsmith {
namespace {

bool exists_in_bf16(float value) { return (std::bit_cast<std::uint32_t>(value) & 0xffffu) == 0; }

bool all_exist_in_bf16(const GgufTensor& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.columns()));
  for (std::int64_t row = 0; row < tensor.rows(); ++row) {
    tensor.read_row(row, values);
    if (!std::all_of(values.begin(), values.end(), exists_in_bf16)) return false;
  }
  return true;
}

FileType stored_type(const GgufTensor& tensor, ImportType type) {
  if (type == ImportType::lossless) return all_exist_in_bf16(tensor) ? FileType::bf16 : FileType::f32;
  return type == ImportType::bf16 ? FileType::bf16 : FileType::f32;
}

void write_rows(const GgufTensor& from, const LlamaTensor& tensor, SafetensorsWriter& writer) {
  std::vector<float> values(static_cast<std::size_t>(from.columns()));
  for (std::int64_t row = 0; row < from.rows(); ++row) {
    const std::int64_t gguf_row = tensor.gguf_row(row);
    from.read_row(gguf_row, values);
    const auto wrong =
        std::find_if_not(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
    if (wrong != values.end())
      throw Error(fmt::format("{}: expected finite values, found {} in row {}; fetch the file again",
                              from.label, *wrong, gguf_row));
    writer.write(tensor.name, std::span<const float>(values));
  }
}

}  // namespace

std::string write_gguf_weights(const WeightsImport& import, const std::filesystem::path& path) {
  std::vector<TensorDeclaration> declarations;
  bool any_f32 = false;
  for (const LlamaTensor& tensor : import.tensors) {
    const FileType stored = stored_type(*import.file.find(tensor.gguf_name), import.type);
    any_f32 |= stored == FileType::f32;
    declarations.push_back({.name = tensor.name, .type = stored, .shape = tensor.shape});
  }
  SafetensorsWriter writer(path, std::move(declarations));
  for (const LlamaTensor& tensor : import.tensors) {
    if (import.before_tensor) import.before_tensor();
    write_rows(*import.file.find(tensor.gguf_name), tensor, writer);
  }
  writer.finish();
  return any_f32 ? "float32" : "bfloat16";
}

}  // namespace draftsmith
