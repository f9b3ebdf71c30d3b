#include "data/gguf_blocks.h"

#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/nearest.h"
#include "base/number.h"

namespace draftsmith {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian and are read as they are");

constexpr std::size_t kBlock = 32;

// In the order of GgufType.
constexpr std::array kTypes{
    GgufTypeInfo{GgufType::f32, 0, "F32", 1, 4},     GgufTypeInfo{GgufType::f16, 1, "F16", 1, 2},
    GgufTypeInfo{GgufType::q4_0, 2, "Q4_0", 32, 18}, GgufTypeInfo{GgufType::q4_1, 3, "Q4_1", 32, 20},
    GgufTypeInfo{GgufType::q5_0, 6, "Q5_0", 32, 22}, GgufTypeInfo{GgufType::q5_1, 7, "Q5_1", 32, 24},
    GgufTypeInfo{GgufType::q8_0, 8, "Q8_0", 32, 34}, GgufTypeInfo{GgufType::bf16, 30, "BF16", 1, 2},
};

// The format's other numbers, by name only.
struct OtherType {
  std::uint32_t number;
  std::string_view name;
};
constexpr std::array kOtherTypes{
    OtherType{9, "Q8_1"},    OtherType{10, "Q2_K"},    OtherType{11, "Q3_K"},   OtherType{12, "Q4_K"},
    OtherType{13, "Q5_K"},   OtherType{14, "Q6_K"},    OtherType{15, "Q8_K"},   OtherType{16, "IQ2_XXS"},
    OtherType{17, "IQ2_XS"}, OtherType{18, "IQ3_XXS"}, OtherType{19, "IQ1_S"},  OtherType{20, "IQ4_NL"},
    OtherType{21, "IQ3_S"},  OtherType{22, "IQ2_S"},   OtherType{23, "IQ4_XS"}, OtherType{24, "I8"},
    OtherType{25, "I16"},    OtherType{26, "I32"},     OtherType{27, "I64"},    OtherType{28, "F64"},
    OtherType{29, "IQ1_M"},  OtherType{34, "TQ1_0"},   OtherType{35, "TQ2_0"},  OtherType{39, "MXFP4"},
};

template <typename T>
T load(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

float load_half(const std::byte* bytes) { return float_from_f16(load<std::uint16_t>(bytes)); }

// The low four bits of all values of a block.
std::array<int, kBlock> load_nibbles(const std::byte* bytes) {
  std::array<int, kBlock> values;
  for (std::size_t j = 0; j < kBlock / 2; ++j) {
    const auto byte = std::to_integer<int>(bytes[j]);
    values[j] = byte & 0xf;
    values[j + kBlock / 2] = byte >> 4;
  }
  return values;
}

// Five bits a value: 32 fifth bits, then the nibbles.
std::array<int, kBlock> load_five_bits(const std::byte* bytes) {
  const auto fifth = load<std::uint32_t>(bytes);
  std::array<int, kBlock> values = load_nibbles(bytes + sizeof(fifth));
  for (std::size_t j = 0; j < kBlock; ++j) values[j] |= static_cast<int>((fifth >> j) & 1u) << 4;
  return values;
}

// One value each.
void read_f32(const std::byte* bytes, float* value) { *value = load<float>(bytes); }
void read_f16(const std::byte* bytes, float* value) { *value = load_half(bytes); }
void read_bf16(const std::byte* bytes, float* value) {
  *value = static_cast<float>(bf16::from_bits(load<std::uint16_t>(bytes)));
}

// One block each.
void read_q4_0(const std::byte* bytes, float* values) {
  const float scale = load_half(bytes);
  const auto quants = load_nibbles(bytes + 2);
  for (std::size_t j = 0; j < kBlock; ++j) values[j] = scale * static_cast<float>(quants[j] - 8);
}

void read_q4_1(const std::byte* bytes, float* values) {
  const float scale = load_half(bytes), least = load_half(bytes + 2);
  const auto quants = load_nibbles(bytes + 4);
  for (std::size_t j = 0; j < kBlock; ++j) values[j] = scale * static_cast<float>(quants[j]) + least;
}

void read_q5_0(const std::byte* bytes, float* values) {
  const float scale = load_half(bytes);
  const auto quants = load_five_bits(bytes + 2);
  for (std::size_t j = 0; j < kBlock; ++j) values[j] = scale * static_cast<float>(quants[j] - 16);
}

void read_q5_1(const std::byte* bytes, float* values) {
  const float scale = load_half(bytes), least = load_half(bytes + 2);
  const auto quants = load_five_bits(bytes + 4);
  for (std::size_t j = 0; j < kBlock; ++j) values[j] = scale * static_cast<float>(quants[j]) + least;
}

void read_q8_0(const std::byte* bytes, float* values) {
  const float scale = load_half(bytes);
  for (std::size_t j = 0; j < kBlock; ++j)
    values[j] = scale * static_cast<float>(load<std::int8_t>(bytes + 2 + j));
}

template <void (*read)(const std::byte*, float*)>
void read_blocks(const GgufTypeInfo& type, std::span<const std::byte> bytes, std::span<float> values) {
  const std::byte* from = bytes.data();
  for (std::size_t i = 0; i < values.size(); i += static_cast<std::size_t>(type.block_values)) {
    read(from, values.data() + i);
    from += type.block_bytes;
  }
}

}  // namespace

const GgufTypeInfo& gguf_type_info(GgufType type) { return kTypes[static_cast<std::size_t>(type)]; }

std::optional<GgufType> find_gguf_type(std::uint32_t number) {
  for (const GgufTypeInfo& type : kTypes)
    if (type.number == number) return type.type;
  return std::nullopt;
}

std::string describe_gguf_type(std::uint32_t number) {
  if (const auto type = find_gguf_type(number)) return std::string(gguf_type_info(*type).name);
  for (const OtherType& type : kOtherTypes)
    if (type.number == number) return std::string(type.name);
  return fmt::format("number {}", number);
}

std::string gguf_type_names() {
  std::vector<std::string> names;
  for (const GgufTypeInfo& type : kTypes) names.emplace_back(type.name);
  return join(names, ", ");
}

void dequantise(GgufType type, std::span<const std::byte> bytes, std::span<float> values) {
  const GgufTypeInfo& info = gguf_type_info(type);
  const auto count = static_cast<std::int64_t>(values.size());
  DRAFTSMITH_CHECK(count % info.block_values == 0 && static_cast<std::int64_t>(bytes.size()) ==
                                                         count / info.block_values * info.block_bytes,
                   "whole blocks and exactly their bytes");
  switch (type) {
    case GgufType::f32:
      return read_blocks<read_f32>(info, bytes, values);
    case GgufType::f16:
      return read_blocks<read_f16>(info, bytes, values);
    case GgufType::bf16:
      return read_blocks<read_bf16>(info, bytes, values);
    case GgufType::q4_0:
      return read_blocks<read_q4_0>(info, bytes, values);
    case GgufType::q4_1:
      return read_blocks<read_q4_1>(info, bytes, values);
    case GgufType::q5_0:
      return read_blocks<read_q5_0>(info, bytes, values);
    case GgufType::q5_1:
      return read_blocks<read_q5_1>(info, bytes, values);
    case GgufType::q8_0:
      return read_blocks<read_q8_0>(info, bytes, values);
  }
}

}  // namespace draftsmith
