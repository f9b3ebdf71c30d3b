// An algorithm of cuBLASLt as the text that run folders, checkpoints and the tuning cache keep, and what it
// depends on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <cublasLt.h>

#include "device/device.h"
#include "kernels/product_choices.h"

namespace draftsmith::cuda {

struct Algorithm {
  cublasLtMatmulAlgo_t description{};
  std::int64_t scratch_bytes = 0;
};

// The library's description of 64 bytes as 128 hexadecimal digits, a space, and the scratch in bytes.
std::string choice_text(const Algorithm& algorithm);
// Nothing for any other text.
std::optional<Algorithm> read_choice(const std::string& text);

// Card, driver and version of cuBLASLt. Throws Error when the library is not there.
DeviceFacts product_facts(const Device& device);

}  // namespace draftsmith::cuda
