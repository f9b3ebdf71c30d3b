#include "train/target_identity.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>

#include <fmt/core.h>

#include "data/checksum.h"
#include "data/file.h"
#include "data/tensor_store.h"

namespace draftsmith {
namespace {

constexpr std::size_t kSampledBytes = 4096;  // of each tensor: one page

std::uint32_t add_text(const std::string& text, std::uint32_t checksum) {
  return crc32c(std::as_bytes(std::span(text)), checksum);
}

}  // namespace

std::int64_t identify_target(const std::filesystem::path& folder) {
  const TensorStore store(folder);
  std::uint32_t checksum = add_text(read_text_file(folder / "config.json"), 0);
  for (const std::string& name : store.names()) {
    const TensorEntry& tensor = store.at(name);
    checksum = add_text(
        fmt::format("{} {} {} ", name, file_type_name(tensor.type), describe_shape(tensor.shape)), checksum);
    checksum = crc32c(tensor.bytes.first(std::min(tensor.bytes.size(), kSampledBytes)), checksum);
  }
  return checksum;
}

}  // namespace draftsmith
