#include "kernels/block_rows.h"

#include <gtest/gtest.h>

#include "support/budget.h"
#include "support/devices.h"
#include "support/guard.h"
#include "support/kernel_types.h"
#include "support/run_on.h"

namespace draftsmith::test {
namespace {

template <typename T>
class BlockRowsTest : public testing::Test {};
TYPED_TEST_SUITE(BlockRowsTest, StorageTypes, StorageName);

struct Case {
  std::int64_t blocks, block_size, width;
};
constexpr Case kCases[] = {{1, 2, 1}, {3, 4, 13}, {70, 16, 64}, {601, 5, 40}};

template <typename T>
void fold(Guarded<T>& input, std::int64_t block_size, Guarded<T>& distinct, int threads = 1) {
  const Device device = test_device(threads);
  run_on<T>(device, FoldBlockRows<T>{
                        .input = input.matrix(), .block_size = block_size, .distinct = distinct.matrix()});
}

TYPED_TEST(BlockRowsTest, SpreadingGivesEachBlockItsFirstRowAndTheSharedRow) {
  for (const Case& one : kCases) {
    Guarded<TypeParam> distinct(one.blocks + 2, one.width, 3),
        output(one.blocks * one.block_size, one.width, 2);
    distinct.fill_normal(1);
    const Device device = test_device(2);
    run_on<TypeParam>(
        device, SpreadBlockRows<TypeParam>{
                    .distinct = distinct.matrix(), .block_size = one.block_size, .output = output.matrix()});
    for (std::int64_t row = 0; row < one.blocks * one.block_size; ++row) {
      const std::int64_t from = row % one.block_size == 0 ? row / one.block_size : one.blocks;
      for (std::int64_t c = 0; c < one.width; ++c) {
        ASSERT_EQ(static_cast<float>(output.matrix()(row, c)),
                  static_cast<float>(distinct.matrix()(from, c)));
      }
    }
    output.expect_guards_intact();
  }
}

TYPED_TEST(BlockRowsTest, FoldingCopiesFirstRowsAndKeepsTheSumOfTheOthersInTwo) {
  for (const Case& one : kCases) {
    Guarded<TypeParam> input(one.blocks * one.block_size, one.width, 5),
        distinct(one.blocks + 2, one.width, 1);
    input.fill_normal(1, 1, 0.5);
    fold(input, one.block_size, distinct);
    std::vector<double> sums(static_cast<std::size_t>(one.width)), got(sums.size());
    for (std::int64_t c = 0; c < one.width; ++c) {
      const auto at = static_cast<std::size_t>(c);
      got[at] = static_cast<double>(distinct.matrix()(one.blocks, c)) +
                static_cast<double>(distinct.matrix()(one.blocks + 1, c));
      for (std::int64_t row = 0; row < input.matrix().rows; ++row) {
        if (row % one.block_size == 0) {
          ASSERT_EQ(static_cast<float>(distinct.matrix()(row / one.block_size, c)),
                    static_cast<float>(input.matrix()(row, c)));
        } else {
          sums[at] += static_cast<double>(input.matrix()(row, c));
        }
      }
    }
    // Terms are added in fp32; two values of T keep at least 16 bits of the sum.
    const std::int64_t shared = one.blocks * (one.block_size - 1);
    const double scale = largest_magnitude(input.values()) * static_cast<double>(shared);
    expect_close(got, sums, {.terms = shared + 256, .scale = scale});
    distinct.expect_guards_intact();
  }
}

TYPED_TEST(BlockRowsTest, ThreadsChangeNoBitOfAFold) {
  Guarded<TypeParam> input(40 * 16, 1003, 1), one(42, 1003), three(42, 1003);
  input.fill_normal(1);
  fold(input, 16, one, 1);
  fold(input, 16, three, 3);
  EXPECT_TRUE(one.bits() == three.bits());
}

}  // namespace
}  // namespace draftsmith::test
