#include "data/tensor_entry.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace draftsmith {
namespace {

template <typename T>
TensorEntry entry_of(FileType type, std::span<const T> values) {
  return {.label = "case: tensor 'x'",
          .type = type,
          .shape = {static_cast<std::int64_t>(values.size())},
          .bytes = std::as_bytes(values)};
}

template <typename To>
std::vector<To> read(const TensorEntry& entry) {
  std::vector<To> out(static_cast<std::size_t>(entry.elements()));
  read_as(entry, std::span(out));
  return out;
}

template <typename To, typename From>
std::vector<To> stored_and_read(FileType type, const std::vector<From>& values) {
  return read<To>(entry_of(type, std::span(values)));
}

TEST(TensorEntry, ReadsHalfPrecisionExactly) {
  // 1, -2, the largest number, the smallest subnormal, infinity.
  const std::vector<std::uint16_t> stored{0x3c00, 0xc000, 0x7bff, 0x0001, 0x7c00};
  const std::vector<double> expected{1, -2, 65504, 0x1p-24, std::numeric_limits<double>::infinity()};
  EXPECT_EQ(stored_and_read<double>(FileType::f16, stored), expected);
  EXPECT_EQ(stored_and_read<float>(FileType::f16, stored),
            std::vector<float>(expected.begin(), expected.end()));
}

TEST(TensorEntry, WidensBf16Exactly) {
  const std::vector<bf16> stored{bf16(1.5f), bf16(-0x1p-130f), bf16(3e38f)};
  EXPECT_THAT(stored_and_read<double>(FileType::bf16, stored),
              testing::ElementsAre(1.5, -0x1p-130, static_cast<double>(static_cast<float>(bf16(3e38f)))));
}

TEST(TensorEntry, RoundsToNearestEvenOnce) {
  const double half = 0x1p-8;                           // half the spacing of bf16 at 1
  const std::vector<double> values{1 + half,            // a tie goes to the even neighbour, 1
                                   1 + 3 * half,        // a tie goes to the even neighbour, 1 + 4 halves
                                   1 + half + 0x1p-40,  // above the tie, though the nearest float lies on it
                                   1 + 3 * half - 0x1p-40,
                                   1e300,
                                   -1e300,
                                   0x1p-1000};
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> expected{1, 1 + 4 * half, 1 + 2 * half, 1 + 2 * half, infinity, -infinity, 0};
  const std::vector<bf16> rounded = stored_and_read<bf16>(FileType::f64, values);
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(static_cast<float>(rounded[i]), static_cast<float>(expected[i])) << values[i];
  EXPECT_TRUE(
      std::isnan(static_cast<float>(stored_and_read<bf16>(FileType::f64, std::vector<double>{NAN})[0])));
  EXPECT_EQ(stored_and_read<float>(FileType::f64, std::vector{1 + 0x1p-24})[0], 1.0f);
}

TEST(TensorEntry, ReadsIntegersAndBooleans) {
  const auto read_one = []<typename T>(FileType type, T value) {
    return stored_and_read<std::int64_t>(type, std::vector<T>{value})[0];
  };
  EXPECT_EQ(read_one(FileType::boolean, std::uint8_t{1}), 1);
  EXPECT_EQ(read_one(FileType::u8, std::uint8_t{255}), 255);
  EXPECT_EQ(read_one(FileType::i8, std::int8_t{-1}), -1);
  EXPECT_EQ(read_one(FileType::i16, std::int16_t{-300}), -300);
  EXPECT_EQ(read_one(FileType::u16, std::uint16_t{65535}), 65535);
  EXPECT_EQ(read_one(FileType::i32, std::int32_t{-7}), -7);
  EXPECT_EQ(read_one(FileType::u32, std::uint32_t{4294967295}), 4294967295);
  EXPECT_EQ(read_one(FileType::i64, std::int64_t{1} << 60), std::int64_t{1} << 60);
}

TEST(TensorEntry, ReadsBytesThatAreNotAligned) {
  const std::vector<float> values{1, 2};
  std::vector<std::byte> bytes(1 + values.size() * sizeof(float));
  std::copy_n(std::as_bytes(std::span(values)).begin(), 8, bytes.begin() + 1);
  const TensorEntry entry{
      .label = "x", .type = FileType::f32, .shape = {2}, .bytes = std::span(bytes).subspan(1)};
  EXPECT_THAT(read<double>(entry), testing::ElementsAre(1, 2));
}

TEST(TensorEntry, RefusesOtherCountsTypesAndShapes) {
  const std::vector<float> values{1, 2, 3};
  const TensorEntry entry = entry_of(FileType::f32, std::span(values));
  std::vector<float> two(2);
  expect_error([&] { read_as(entry, std::span(two)); }, {"tensor 'x'", "expected 2 elements, found 3"});
  expect_error([&] { read<std::int64_t>(entry); }, {"tensor 'x'", "integers", "found F32"});
  expect_error([&] { stored_and_read<float>(FileType::f8_e4m3, std::vector{std::uint8_t{1}}); },
               {"expected BF16, F16, F32 or F64, found F8_E4M3"});
  expect_error(
      [&] {
        check_shape(entry, std::vector<std::int64_t>{3, 1});
      },
      {"tensor 'x'", "expected shape [3, 1], found [3]"});
  EXPECT_NO_THROW(check_shape(entry, std::vector<std::int64_t>{3}));
}

}  // namespace
}  // namespace draftsmith
