#include "kernels/library.h"

#include <fmt/core.h>

#include "base/arithmetic.h"
#include "base/error.h"
#include "device/seal.h"

namespace draftsmith {

namespace {
constexpr std::int64_t kScratchAlignment = 256;
}

std::string MatmulShape::text() const {
  constexpr const char* kForms[] = {"nt", "nn", "tn"};
  const auto name = [](DType type) { return type == DType::bf16 ? "bf16" : "float32"; };
  return fmt::format("{} {}x{}x{} {} -> {}{}{}", kForms[static_cast<int>(form)], rows, columns, depth,
                     name(storage), name(output), accumulate ? " accumulated" : "", bias ? " + bias" : "");
}

std::string MatmulShape::key() const {
  return fmt::format("{} strides {} {} {}", text(), left_stride, right_stride, output_stride);
}

const PreparedMatmul& MatmulLibrary::find(const MatmulShape& shape) {
  for (const auto& prepared : prepared_) {
    if (prepared->shape == shape) return *prepared;
  }
  const auto chosen = chosen_.products.find(shape.key());
  const bool is_chosen = chosen != chosen_.products.end();
  if (!is_chosen && !place_.empty()) {
    throw Error(fmt::format("{}: nothing is stored for the product {} on {}. {}", place_, shape.key(),
                            device_.name.text(), kRetuneAdvice));
  }
  count_set_up(SetUp::kernel);
  auto prepared = prepare_(device_, shape, is_chosen ? chosen->second : "");
  if (is_chosen && !place_.empty() && prepared->choice != chosen->second) {
    throw Error(fmt::format("{}: on {} the product {} cannot be made by {} any more, only by {}. {}", place_,
                            device_.name.text(), shape.key(), chosen->second, prepared->choice,
                            kRetuneAdvice));
  }
  prepared_.push_back(std::move(prepared));
  return *prepared_.back();
}

void MatmulLibrary::meet(const MatmulShape& shape) {
  if (preparation_ == Preparation::products || scratch_bytes_of_ == nullptr) {
    find(shape);
  } else {
    reserve_scratch(scratch_bytes_of_(device_, shape));
  }
}

void MatmulLibrary::meet_aside(const MatmulShape& shape) {
  meet(shape);
  const bool sizes = preparation_ == Preparation::sizes && scratch_bytes_of_ != nullptr;
  const std::int64_t bytes = sizes ? scratch_bytes_of_(device_, shape) : find(shape).scratch_bytes;
  aside_bytes_ = std::max(aside_bytes_, round_up(bytes, kScratchAlignment));
}

void MatmulLibrary::use(DeviceChoices choices, std::string place) {
  chosen_ = std::move(choices);
  place_ = std::move(place);
}

DeviceChoices MatmulLibrary::choices() const {
  DeviceChoices choices{.facts = chosen_.facts};
  for (const auto& prepared : prepared_) choices.products[prepared->shape.key()] = prepared->choice;
  return choices;
}

std::int64_t MatmulLibrary::scratch_bytes() const {
  std::int64_t most = reserved_bytes_;
  for (const auto& prepared : prepared_) most = std::max(most, prepared->scratch_bytes);
  return aside_bytes_ == 0 ? most : round_up(most, kScratchAlignment) + aside_bytes_;
}

void MatmulLibrary::note(const std::string& line) {
  if (std::find(notes_.begin(), notes_.end(), line) == notes_.end()) notes_.push_back(line);
}

std::vector<std::string> MatmulLibrary::describe() const {
  std::vector<std::string> lines;
  for (const auto& prepared : prepared_) {
    lines.push_back(fmt::format("{}: {}", prepared->shape.text(), prepared->algorithm));
  }
  return lines;
}

}  // namespace draftsmith
