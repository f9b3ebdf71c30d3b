#include "kernels/cuda/choices.h"

#include <charconv>
#include <cstring>
#include <string_view>

#include <fmt/core.h>

#include "kernels/cuda/cublaslt.h"

namespace draftsmith::cuda {

namespace {

template <typename Number>
bool read_number(std::string_view text, int base, Number& number) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
}

}  // namespace

std::string choice_text(const Algorithm& algorithm) {
  unsigned char bytes[sizeof(cublasLtMatmulAlgo_t)];
  std::memcpy(bytes, &algorithm.description, sizeof bytes);
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text + fmt::format(" {}", algorithm.scratch_bytes);
}

std::optional<Algorithm> read_choice(const std::string& text) {
  constexpr std::size_t kBytes = sizeof(cublasLtMatmulAlgo_t), kDigits = 2 * kBytes;
  const std::string_view view = text;
  Algorithm algorithm;
  if (view.size() < kDigits + 2 || view[kDigits] != ' ' ||
      !read_number(view.substr(kDigits + 1), 10, algorithm.scratch_bytes) || algorithm.scratch_bytes < 0) {
    return std::nullopt;
  }
  unsigned char bytes[kBytes];
  for (std::size_t i = 0; i < kBytes; ++i) {
    if (!read_number(view.substr(2 * i, 2), 16, bytes[i])) return std::nullopt;
  }
  std::memcpy(&algorithm.description, bytes, kBytes);
  return algorithm;
}

DeviceFacts product_facts(const Device& device) {
  const int driver = device.traits.driver;
  return {{"device", "GPU"},
          {"card", device.traits.card},
          {"driver", fmt::format("{}.{}", driver / 1000, driver % 1000 / 10)},
          {"cuBLASLt", fmt::format("{}", cublaslt().version())}};
}

}  // namespace draftsmith::cuda
