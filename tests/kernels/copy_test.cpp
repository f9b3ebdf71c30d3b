#include "kernels/copy.h"

#include <gtest/gtest.h>

#include "support/devices.h"
#include "support/guard.h"
#include "support/kernel_types.h"
#include "support/run_on.h"

namespace draftsmith::test {
namespace {

template <typename T>
class CopyTest : public testing::Test {};
TYPED_TEST_SUITE(CopyTest, StorageTypes, StorageName);

template <typename T>
bool same_row(Matrix<T> a, std::int64_t row_a, Matrix<T> b, std::int64_t row_b) {
  return std::memcmp(a.row(row_a), b.row(row_b), static_cast<std::size_t>(a.columns) * sizeof(T)) == 0;
}

TYPED_TEST(CopyTest, RowsAreCopiedBitForBitBetweenStrides) {
  for (const int threads : {1, 2, 3}) {
    Guarded<TypeParam> input(700, 1001, 3), output(700, 1001, 5, 1);
    input.fill_normal(1);
    input.matrix()(3, 5) = static_cast<TypeParam>(std::nanf(""));
    const Device device = test_device(threads);
    run_on<TypeParam>(device, CopyRows<TypeParam>{.input = input.matrix(), .output = output.matrix()});
    EXPECT_TRUE(input.bits() == output.bits());
    output.expect_guards_intact();
  }
}

TYPED_TEST(CopyTest, GatherTakesRowsByIndexAndZerosForNone) {
  Guarded<TypeParam> table(5, 13, 3), output(6, 13, 2);
  table.fill_normal(1);
  const VisibleVector<std::int32_t> index{4, -1, 0, 4, 2, -1};
  const Device device = test_device();
  run_on<TypeParam>(device, GatherRows<TypeParam>{.table = table.matrix(),
                                                  .index = Vector<const std::int32_t>{index.data(), 6},
                                                  .output = output.matrix()});
  for (std::int64_t row = 0; row < 6; ++row) {
    const std::int32_t from = index[static_cast<std::size_t>(row)];
    if (from >= 0) {
      EXPECT_TRUE(same_row(table.matrix(), from, output.matrix(), row)) << row;
    } else {
      for (std::int64_t c = 0; c < 13; ++c) EXPECT_EQ(static_cast<float>(output.matrix()(row, c)), 0.0f);
    }
  }
  output.expect_guards_intact();
}

TYPED_TEST(CopyTest, FillZeroClearsExactlyItsBytes) {
  for (const int threads : {1, 3}) {
    Guarded<TypeParam> output(1, 2'000'003);
    const Device device = test_device(threads);
    run_on<TypeParam>(device, FillZero{.output = bytes_of(output.vector())});
    for (const double value : output.values()) ASSERT_EQ(value, 0.0);
    output.expect_guards_intact();
  }
}

}  // namespace
}  // namespace draftsmith::test
