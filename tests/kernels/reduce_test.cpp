#include "kernels/reduce.h"

#include <gtest/gtest.h>

#include "support/budget.h"
#include "support/devices.h"
#include "support/guard.h"
#include "support/kernel_types.h"
#include "support/run_on.h"

namespace draftsmith::test {
namespace {

template <typename T>
class ReduceTest : public testing::Test {};
TYPED_TEST_SUITE(ReduceTest, StorageTypes, StorageName);

template <typename T>
void sum_columns(Guarded<T>& input, Guarded<float>& output, int threads) {
  const Device device = test_device(threads);
  run_on<T>(device, ColumnSum<T>{.input = input.matrix(), .output = output.vector()});
}

double sum_squares(const Guarded<float>& input, int threads) {
  Guarded<float> values = input;
  Guarded<double> output(1, 1);
  const Device device = test_device(threads);
  run_on<float>(device, SumOfSquares<float>{.input = values.vector(), .output = output.vector()});
  output.expect_guards_intact();
  return output.vector()[0];
}

TYPED_TEST(ReduceTest, ColumnSumsAreAdded) {
  for (const auto& [rows, width] : {std::pair{1, 1}, {70, 33}, {200, 64}}) {
    Guarded<TypeParam> input(rows, width, 3);
    Guarded<float> output(1, width);
    input.fill_normal(1);
    output.fill_normal(2);
    std::vector<double> expected = output.values();
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t c = 0; c < width; ++c) {
        expected[static_cast<std::size_t>(c)] += static_cast<double>(input.matrix()(row, c));
      }
    }
    sum_columns(input, output, 1);
    const double scale = largest_magnitude(input.values()) * rows + largest_magnitude(expected);
    expect_close(output.values(), expected, {.terms = rows + 1, .scale = scale});
    output.expect_guards_intact();
  }
}

TYPED_TEST(ReduceTest, ThreadsChangeNoBitOfColumnSums) {
  Guarded<TypeParam> input(999, 1003, 1);
  input.fill_normal(1);
  Guarded<float> one(1, 1003);
  one.fill_normal(2);
  Guarded<float> two = one, three = one;
  sum_columns(input, one, 1);
  sum_columns(input, two, 2);
  sum_columns(input, three, 3);
  EXPECT_TRUE(one.bits() == two.bits());
  EXPECT_TRUE(one.bits() == three.bits());
}

TEST(SumOfSquaresTest, IsExactToDoubleAndTheSameForAnyThreads) {
  for (const std::int64_t size : {0, 1, 15, 17, 1000, 1'000'003}) {
    Guarded<float> input(1, size);
    input.fill_normal(1);
    long double expected = 0;
    for (const double value : input.values()) expected += static_cast<long double>(value) * value;
    const double sum = sum_squares(input, 1);
    EXPECT_NEAR(sum, static_cast<double>(expected), 0x1p-53 * static_cast<double>(size + 1) * sum);
    EXPECT_EQ(sum, sum_squares(input, 2));
    EXPECT_EQ(sum, sum_squares(input, 3));
  }
}

TEST(SumOfSquaresTest, WhatIsNotFiniteShows) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    for (const std::int64_t place : {0, 500, 1000}) {
      Guarded<float> input(1, 1001);
      input.fill_normal(1);
      input.vector()[place] = bad;
      EXPECT_FALSE(std::isfinite(sum_squares(input, 1)));
    }
  }
  Guarded<float> large(1, 100);
  large.fill_normal(1, 0, 1e30);
  EXPECT_TRUE(std::isfinite(sum_squares(large, 1)));
}

}  // namespace
}  // namespace draftsmith::test
