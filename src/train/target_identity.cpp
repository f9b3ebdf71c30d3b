#include "train/target_identity.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "data/checksum.h"
#include "data/file.h"
#include "data/tensor_store.h"

namespace draftsmith {
namespace {

constexpr std::size_t kSampleBytes = 4096;

std::uint32_t add_text(const std::string& text, std::uint32_t checksum) {
  return crc32c(std::as_bytes(std::span(text)), checksum);
}

std::vector<std::span<const std::byte>> samples_of(std::span<const std::byte> bytes, std::size_t samples) {
  if (bytes.size() <= samples * kSampleBytes) return {bytes};
  std::vector<std::span<const std::byte>> pieces;
  const std::size_t last = bytes.size() - kSampleBytes;
  for (std::size_t i = 0; i < samples; ++i) {
    const std::size_t begin =
        samples == 1 ? 0 : last / (samples - 1) * i + last % (samples - 1) * i / (samples - 1);
    pieces.push_back(bytes.subspan(begin, kSampleBytes));
  }
  return pieces;
}

}  // namespace

TargetIdentity identify_target(const std::filesystem::path& folder, std::int64_t samples) {
  const TensorStore store(folder);
  const auto samples_at = [&](const std::string& name) {
    return samples_of(store.at(name).bytes, static_cast<std::size_t>(samples));
  };
  // All at once: a disk is many times slower when each is waited for, or read with what lies around it.
  for (const std::string& name : store.names()) {
    for (const std::span<const std::byte> sample : samples_at(name)) prefetch(sample);
  }
  std::uint32_t checksum = add_text(read_text_file(folder / "config.json"), 0);
  for (const std::string& name : store.names()) {
    const TensorEntry& tensor = store.at(name);
    checksum = add_text(
        fmt::format("{} {} {} ", name, file_type_name(tensor.type), describe_shape(tensor.shape)), checksum);
    for (const std::span<const std::byte> sample : samples_at(name)) checksum = crc32c(sample, checksum);
  }
  return {.samples = samples, .checksum = checksum};
}

JsonValue identity_json(const TargetIdentity& identity) {
  return {JsonObject{{"samples", {identity.samples}}, {"checksum", {identity.checksum}}}};
}

// Without a number of samples: one, the first of each tensor.
TargetIdentity read_target_identity(const JsonFields& fields) {
  return {.samples = fields.find_integer("samples", {.least = 1, .most = 1024}).value_or(1),
          .checksum = fields.integer("checksum", {})};
}

}  // namespace draftsmith
