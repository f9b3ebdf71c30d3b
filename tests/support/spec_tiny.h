// The trained target and drafter of tests/golden/spec_tiny, and what the reference made of six prompts.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/safetensors.h"
#include "generate/decoder.h"
#include "model/drafter_loader.h"
#include "model/target_shape.h"

namespace draftsmith {

class SpecTiny {
 public:
  static constexpr std::int64_t kPrompts = 6;
  static constexpr std::int64_t kLength = 56;  // of every reference output, the prompt of 8 included

  static std::filesystem::path folder() {
    return std::filesystem::path(DRAFTSMITH_SOURCE_DIR) / "tests/golden/spec_tiny";
  }

  std::unique_ptr<Decoder> decoder(DType compute, const DecoderSettings& settings) const {
    attach_thread(device_);
    return make_decoder(device_, compute, models(), settings);
  }
  // Views of this object's weights.
  DecoderModels models() const {
    return {.target_folder = folder() / "target",
            .target = read_target_shape(folder() / "target"),
            .drafter = drafter_.shape,
            .drafter_weights = drafter_.weights};
  }

  // A matrix of ids of one prompt.
  std::vector<std::vector<std::int32_t>> rows(const std::string& name, std::int64_t index) const {
    const TensorEntry& entry = reference_.at(name + "." + std::to_string(index));
    std::vector<std::int64_t> flat(static_cast<std::size_t>(entry.elements()));
    read_as(entry, std::span<std::int64_t>(flat));
    std::vector<std::vector<std::int32_t>> rows;
    for (std::int64_t row = 0; row < entry.shape[0]; ++row) {
      rows.emplace_back(flat.begin() + row * entry.shape[1], flat.begin() + (row + 1) * entry.shape[1]);
    }
    return rows;
  }
  std::vector<std::int32_t> prompt(std::int64_t index) const { return rows("prompt", index)[0]; }

 private:
  SafetensorsFile reference_{folder() / "reference.safetensors"};
  LoadedDrafter drafter_ = load_drafter(folder() / "drafter");
  const Device device_;
};

}  // namespace draftsmith
