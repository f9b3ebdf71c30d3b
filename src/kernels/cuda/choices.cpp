#include "kernels/cuda/choices.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include "kernels/cuda/cublaslt.h"

namespace draftsmith::cuda {

namespace {

std::string file_of(const Device& device) {
  std::string card = device.traits.card;
  std::replace_if(
      card.begin(), card.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return fmt::format("{}/products-{}-{}-{}.txt", device.tuning_folder, card, device.traits.driver,
                     cublaslt().version());
}

std::string product_of(const MatmulShape& shape) {
  return fmt::format("{} strides {} {} {}", shape.text(), shape.left_stride, shape.right_stride,
                     shape.output_stride);
}

std::uint32_t checksum(std::string_view text) {
  std::uint32_t crc = 0xffffffffu;
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0xedb88320u : 0u);
  }
  return ~crc;
}

template <typename Number>
bool read_number(std::string_view text, int base, Number& number) {
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
}

}  // namespace

std::string choice_line(const MatmulShape& shape, const ProductChoice& choice) {
  std::string line = product_of(shape) + "\t";
  unsigned char bytes[sizeof(cublasLtMatmulAlgo_t)];
  std::memcpy(bytes, &choice.algorithm, sizeof bytes);
  for (const unsigned char byte : bytes) line += fmt::format("{:02x}", byte);
  line += fmt::format("\t{}", choice.scratch_bytes);
  return line + fmt::format("\t{:08x}\n", checksum(line));
}

std::optional<ProductChoice> read_choice_line(const MatmulShape& shape, const std::string& line) {
  const std::string product = product_of(shape) + "\t";
  if (!line.starts_with(product)) return std::nullopt;
  const std::size_t last_tab = line.rfind('\t');
  std::uint32_t crc = 0;
  if (!read_number(std::string_view(line).substr(last_tab + 1), 16, crc) ||
      crc != checksum(std::string_view(line).substr(0, last_tab))) {
    return std::nullopt;
  }
  constexpr std::size_t kBytes = sizeof(cublasLtMatmulAlgo_t), kDigits = 2 * kBytes;
  const std::string_view rest = std::string_view(line).substr(0, last_tab).substr(product.size());
  ProductChoice choice;
  if (rest.size() < kDigits + 2 || !read_number(rest.substr(kDigits + 1), 10, choice.scratch_bytes)) {
    return std::nullopt;
  }
  unsigned char bytes[kBytes];
  for (std::size_t i = 0; i < kBytes; ++i) {
    if (!read_number(rest.substr(2 * i, 2), 16, bytes[i])) return std::nullopt;
  }
  std::memcpy(&choice.algorithm, bytes, kBytes);
  return choice;
}

std::optional<ProductChoice> kept_choice(const Device& device, const MatmulShape& shape) {
  if (device.tuning_folder.empty()) return std::nullopt;
  std::ifstream file(file_of(device));
  for (std::string line; std::getline(file, line);) {
    if (const auto choice = read_choice_line(shape, line)) return choice;
  }
  return std::nullopt;
}

void keep_choice(const Device& device, const MatmulShape& shape, const ProductChoice& choice) {
  if (device.tuning_folder.empty()) return;
  std::error_code ignored;  // a folder that cannot be made costs measuring again
  std::filesystem::create_directories(device.tuning_folder, ignored);
  const int file = ::open(file_of(device).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) return;
  const std::string line = choice_line(shape, choice);
  [[maybe_unused]] const ssize_t written =
      ::write(file, line.data(), line.size());  // a torn line fails its check
  ::close(file);
}

}  // namespace draftsmith::cuda
