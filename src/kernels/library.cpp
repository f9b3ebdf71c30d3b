#include "kernels/library.h"

#include <fmt/core.h>

#include "device/seal.h"

namespace draftsmith {

std::string MatmulShape::text() const {
  constexpr const char* kForms[] = {"nt", "nn", "tn"};
  const auto name = [](DType type) { return type == DType::bf16 ? "bf16" : "float32"; };
  return fmt::format("{} {}x{}x{} {} -> {}{}{}", kForms[static_cast<int>(form)], rows, columns, depth,
                     name(storage), name(output), accumulate ? " accumulated" : "", bias ? " + bias" : "");
}

const PreparedMatmul& MatmulLibrary::find(const MatmulShape& shape) {
  for (const auto& prepared : prepared_) {
    if (prepared->shape == shape) return *prepared;
  }
  count_set_up(SetUp::kernel);
  prepared_.push_back(prepare_(device_, shape));
  return *prepared_.back();
}

std::int64_t MatmulLibrary::scratch_bytes() const {
  std::int64_t most = reserved_bytes_;
  for (const auto& prepared : prepared_) most = std::max(most, prepared->scratch_bytes);
  return most;
}

std::vector<std::string> MatmulLibrary::describe() const {
  std::vector<std::string> lines;
  for (const auto& prepared : prepared_) {
    lines.push_back(fmt::format("{}: {}", prepared->shape.text(), prepared->algorithm));
  }
  return lines;
}

}  // namespace draftsmith
