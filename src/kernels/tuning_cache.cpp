#include "kernels/tuning_cache.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <fstream>
#include <string_view>

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

namespace draftsmith {

namespace {

std::uint32_t checksum(std::string_view text) {
  std::uint32_t crc = 0xffffffffu;
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0xedb88320u : 0u);
  }
  return ~crc;
}

std::string line_of(const std::string& product, const std::string& choice) {
  const std::string fields = product + "\t" + choice;
  return fields + fmt::format("\t{:08x}", checksum(fields));
}

}  // namespace

TuningCache::TuningCache(const Device& device, const DeviceFacts& facts) {
  if (device.tuning_folder.empty()) return;
  std::string name = "products";
  for (const auto& fact : facts) name += "-" + fact.second;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0 && c != '-'; }, '_');
  file_ = std::filesystem::path(device.tuning_folder) / (name + ".txt");
}

std::optional<std::string> TuningCache::find(const std::string& product) const {
  if (file_.empty()) return std::nullopt;
  const std::string begin = product + "\t";
  std::ifstream file(file_);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(begin)) continue;
    const std::size_t end = line.rfind('\t');
    if (end < begin.size()) continue;
    std::string choice = line.substr(begin.size(), end - begin.size());
    if (line == line_of(product, choice)) return choice;
  }
  return std::nullopt;
}

void TuningCache::keep(const std::string& product, const std::string& choice) const {
  if (file_.empty()) return;
  std::error_code ignored;  // a folder that cannot be made costs measuring again
  std::filesystem::create_directories(file_.parent_path(), ignored);
  const int file = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) return;
  const std::string line = line_of(product, choice) + "\n";
  [[maybe_unused]] const ssize_t written =
      ::write(file, line.data(), line.size());  // a torn line fails its check
  ::close(file);
}

}  // namespace draftsmith
