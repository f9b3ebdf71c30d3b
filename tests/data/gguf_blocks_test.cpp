#include "data/gguf_blocks.h"

#include <array>
#include <cmath>
#include <span>

#include <gtest/gtest.h>

#include "base/number.h"
#include "base/random.h"
#include "support/gguf_builder.h"

namespace draftsmith {
namespace {

// A half by its value: sign, and 1.fraction * 2^exponent.
std::uint16_t half(int sign, int exponent, int fraction) {
  return static_cast<std::uint16_t>(sign << 15 | (exponent + 15) << 10 | fraction);
}

double value_of_half(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f, fraction = bits & 0x3ff;
  const double magnitude = std::ldexp(1 + fraction / 1024.0, exponent - 15);
  return bits >> 15 ? -magnitude : magnitude;
}

// A block of the formats that have them, by its numbers.
struct Block {
  std::uint16_t scale, least;
  std::array<int, 32> quants;
};

Block random_block(std::uint32_t index, int levels) {
  const Random random(11, RandomStream::sampling);
  Block block{};
  const auto draw = [&](std::uint32_t place, std::uint32_t below) {
    return static_cast<int>(random.bits(index * 64 + place) % below);
  };
  block.scale = half(draw(0, 2), draw(1, 12) - 10, draw(2, 1024));
  block.least = half(draw(3, 2), draw(4, 12) - 10, draw(5, 1024));
  for (std::uint32_t j = 0; j < 32; ++j) block.quants[j] = draw(6 + j, static_cast<std::uint32_t>(levels));
  return block;
}

std::string nibbles(const Block& block) {
  std::string bytes;
  for (std::size_t j = 0; j < 16; ++j)
    bytes += static_cast<char>((block.quants[j] & 15) | (block.quants[j + 16] & 15) << 4);
  return bytes;
}

std::string fifth_bits(const Block& block) {
  std::uint32_t bits = 0;
  for (std::size_t j = 0; j < 32; ++j) bits |= static_cast<std::uint32_t>(block.quants[j] >> 4) << j;
  return little_endian(bits);
}

struct Format {
  GgufType type;
  int levels;  // of a quant
  int offset;  // value = scale * (quant - offset) + least
  bool has_least;
  std::string (*pack)(const Block&);
};

const std::array kFormats{
    Format{GgufType::q4_0, 16, 8, false,
           [](const Block& block) { return little_endian(block.scale) + nibbles(block); }},
    Format{GgufType::q4_1, 16, 0, true,
           [](const Block& block) {
             return little_endian(block.scale) + little_endian(block.least) + nibbles(block);
           }},
    Format{
        GgufType::q5_0, 32, 16, false,
        [](const Block& block) { return little_endian(block.scale) + fifth_bits(block) + nibbles(block); }},
    Format{GgufType::q5_1, 32, 0, true,
           [](const Block& block) {
             return little_endian(block.scale) + little_endian(block.least) + fifth_bits(block) +
                    nibbles(block);
           }},
    Format{GgufType::q8_0, 256, 128, false,
           [](const Block& block) {
             std::string bytes = little_endian(block.scale);
             for (const int quant : block.quants) bytes += static_cast<char>(quant - 128);
             return bytes;
           }},
};

class GgufBlocks : public testing::TestWithParam<Format> {};

// The exact value fits double; ours is that value, rounded to float once.
TEST_P(GgufBlocks, AreTheFormulaToTheBit) {
  constexpr std::uint32_t kBlocks = 40;
  const Format& format = GetParam();
  std::string bytes;
  std::vector<float> expected;
  for (std::uint32_t i = 0; i < kBlocks; ++i) {
    const Block block = random_block(i, format.levels);
    bytes += format.pack(block);
    const double least = format.has_least ? value_of_half(block.least) : 0;
    for (const int quant : block.quants)
      expected.push_back(static_cast<float>(value_of_half(block.scale) * (quant - format.offset) + least));
  }
  const GgufTypeInfo& info = gguf_type_info(format.type);
  ASSERT_EQ(bytes.size(), kBlocks * static_cast<std::size_t>(info.block_bytes));
  std::vector<float> found(expected.size(), std::nanf(""));
  dequantise(format.type, std::as_bytes(std::span(bytes)), found);
  EXPECT_EQ(found, expected);
}

INSTANTIATE_TEST_SUITE_P(Formats, GgufBlocks, testing::ValuesIn(kFormats),
                         [](const auto& info) { return std::string(gguf_type_info(info.param.type).name); });

TEST(GgufBlocksOfOne, KeepEveryNumber) {
  const std::vector<float> numbers{0.0f, -1.5f, 3.0f, 65504.0f, 0x1p-24f};
  const auto read = [&](GgufType type, const std::string& bytes) {
    std::vector<float> values(numbers.size());
    dequantise(type, std::as_bytes(std::span(bytes)), values);
    return values;
  };
  std::string f32, bf16_bytes;
  for (const float number : numbers) f32 += little_endian(number);
  EXPECT_EQ(read(GgufType::f32, f32), numbers);
  const std::string f16 = little_endian(std::array<std::uint16_t, 5>{0, 0xbe00, 0x4200, 0x7bff, 1});
  EXPECT_EQ(read(GgufType::f16, f16), numbers);
  std::vector<float> rounded;
  for (const float number : numbers) {
    bf16_bytes += little_endian(bf16(number).bits);
    rounded.push_back(bf16(number));
  }
  EXPECT_EQ(read(GgufType::bf16, bf16_bytes), rounded);
}

TEST(GgufTypes, HaveNamesForErrors) {
  EXPECT_EQ(find_gguf_type(8), GgufType::q8_0);
  EXPECT_EQ(find_gguf_type(12), std::nullopt);
  EXPECT_EQ(describe_gguf_type(12), "Q4_K");
  EXPECT_EQ(describe_gguf_type(30), "BF16");
  EXPECT_EQ(describe_gguf_type(4), "number 4");
  EXPECT_EQ(gguf_type_names(), "F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, BF16");
}

}  // namespace
}  // namespace draftsmith
