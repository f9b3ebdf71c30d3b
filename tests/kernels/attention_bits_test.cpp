// What the bits of attention depend on: not the threads, the plan, the rows and documents beside a row, and nothing that
// it cannot see.
#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "kernels/attention_operands.h"

namespace draftsmith::test {
namespace {

class AttentionBitsTest : public testing::TestWithParam<AttentionLayout> {};

TEST_P(AttentionBitsTest, TheNumberOfThreadsChangesNoBit) {
  AttentionOperands<float> one(case_of(GetParam()));
  one.forward();
  one.backward();
  for (const int threads : {2, 3}) {
    AttentionOperands<float> many(case_of(GetParam()));
    many.forward(threads);
    many.backward(threads);
    EXPECT_TRUE(one.result_bits() == many.result_bits()) << threads << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, AttentionBitsTest, testing::ValuesIn(kAttentionLayouts),
                         [](const auto& param) { return param.param.name; });

TEST(AttentionBitsTest, NothingBeyondTheAnchorIsRead) {
  const AttentionCase at = blocks_of({"", 2, 1, 16, 4, false, {100, 80}, {{0, 66}, {5, -1}}});
  AttentionOperands<float> run(at);
  run.forward();
  run.backward();
  AttentionOperands<float> poisoned(at);
  const float kNan = std::numeric_limits<float>::quiet_NaN();
  for (std::int64_t row = 0; row < at.context_rows; ++row) {
    if (row < 66 || (row >= 100 && row < 105)) continue;
    for (std::int64_t column = 0; column < 16; ++column) {
      poisoned.context_key.matrix()(row, column) = poisoned.context_value.matrix()(row, column) = kNan;
    }
  }
  for (std::int64_t row = 12; row < 16; ++row) {  // the invalid block
    for (std::int64_t column = 0; column < 16; ++column) {
      poisoned.block_key.matrix()(row, column) = poisoned.block_value.matrix()(row, column) = kNan;
    }
  }
  poisoned.forward();
  poisoned.backward();
  EXPECT_TRUE(run.result_bits() == poisoned.result_bits());
  for (std::int64_t column = 0; column < 16; ++column) {
    EXPECT_EQ(poisoned.grad_context_key.matrix()(66, column), 0.0f);
    EXPECT_EQ(poisoned.grad_block_value.matrix()(13, column), 0.0f);
  }
}

// A row whose scores are not finite must not look like one that sees nothing.
template <typename T>
void expect_nan_to_reach_its_own_row_only() {
  constexpr std::int64_t kRow = 5;  // of the block at anchor 9
  AttentionOperands<T> run(blocks_of({"", 2, 1, 64, 4, false, {40}, {{0, 9, 30}}}));
  run.query.matrix()(kRow, 64) = T(std::numeric_limits<float>::quiet_NaN());  // of the second head
  run.forward();
  for (std::int64_t row = 0; row < run.at.rows(); ++row) {
    for (std::int64_t column = 0; column < 128; ++column) {
      const bool finite = std::isfinite(static_cast<float>(run.output.matrix()(row, column)));
      EXPECT_EQ(finite, row != kRow || column < 64) << "row " << row << ", column " << column;
    }
  }
}

TEST(AttentionBitsTest, ANanInAQueryReachesItsOwnRowOnly) {
  expect_nan_to_reach_its_own_row_only<float>();
  expect_nan_to_reach_its_own_row_only<bf16>();
}

// The bits of launches with a plan of their own, however many launches share one.
template <typename T>
void expect_plans_to_change_nothing(const AttentionLayout& layout) {
  AttentionOperands<T> own(case_of(layout)), shared(case_of(layout)), forward_only(case_of(layout));
  own.forward();
  own.backward();
  shared.plan_for(AttentionPasses::forward_and_backward);
  forward_only.plan_for(AttentionPasses::forward);
  for (int launch = 0; launch < 3; ++launch) {
    shared.forward();
    shared.backward();
    forward_only.forward();
    EXPECT_TRUE(own.output.bits() == shared.output.bits());
    EXPECT_TRUE(own.output.bits() == forward_only.output.bits());
    EXPECT_TRUE(own.grad_query.bits() == shared.grad_query.bits());
    EXPECT_TRUE(own.grad_context_key.bits() == shared.grad_context_key.bits());
    EXPECT_TRUE(own.grad_block_value.bits() == shared.grad_block_value.bits());
  }
}

TEST(AttentionBitsTest, OnePlanServesEveryLaunchWithItsIntervals) {
  const AttentionLayout layout{"", 4, 2, 64, 8, false, {300, 77}, {{3, 20, 21, 290}, {0, 60}}};
  expect_plans_to_change_nothing<float>(layout);
  expect_plans_to_change_nothing<bf16>(layout);
  AttentionLayout causal = layout;
  causal.causal = true;
  expect_plans_to_change_nothing<bf16>(causal);
}

// Rows alone, as in decoding, against the same rows together, as in verifying a block or a prefill. Few rows take heads
// together, as many as their thread has.
template <typename T>
void expect_rows_alone(const AttentionLayout& layout, int threads) {
  AttentionOperands<T> together(prefill_of(layout));
  together.forward();
  const std::int64_t width = layout.query_heads * layout.head_dim;
  for (const std::int64_t rows : {1, 2, 7, 8, 32}) {
    for (std::int64_t first = 0; first + rows <= together.at.rows(); first += 29) {
      AttentionOperands<T> alone(together.at);
      const Device device = test_device(threads);
      run_on<T>(device, AttentionForward<T>{.shape = together.at.shape,
                                            .intervals = {alone.intervals().begin.slice(first, rows),
                                                          alone.intervals().end.slice(first, rows)},
                                            .query = alone.query.matrix().slice_rows(first, rows),
                                            .context_key = alone.context_key.matrix(),
                                            .context_value = alone.context_value.matrix(),
                                            .output = alone.output.matrix().slice_rows(first, rows)});
      for (std::int64_t row = first; row < first + rows; ++row) {
        ASSERT_EQ(0, std::memcmp(alone.output.matrix().row(row), together.output.matrix().row(row),
                                 static_cast<std::size_t>(width) * sizeof(T)))
            << "row " << row << " among " << rows;
      }
    }
  }
}

TEST(AttentionBitsTest, ARowsBitsDoNotDependOnTheRowsBesideIt) {
  const AttentionLayout layout{"", 4, 2, 16, 0, false, {3, 200}, {}};
  expect_rows_alone<float>(layout, 1);
  expect_rows_alone<bf16>(layout, 1);
  // Three kv heads over two threads; columns that pairs of vectors leave over; values that lie unpadded in storage, or not.
  for (const std::int64_t head_dim : {40, 80}) {
    const AttentionLayout uneven{"", 6, 3, head_dim, 0, false, {3, 90}, {}};
    expect_rows_alone<float>(uneven, 2);
    expect_rows_alone<bf16>(uneven, 2);
  }
  expect_rows_alone<bf16>({"", 8, 8, 64, 0, false, {150}, {}}, 3);
}

// A block's bits depend on its document alone, wherever that lies in the context.
TEST(AttentionBitsTest, ABlocksBitsDoNotDependOnTheDocumentsBesideIt) {
  AttentionOperands<float> packed(blocks_of({"", 2, 1, 16, 4, false, {37, 100}, {{20}, {90}}}));
  AttentionOperands<float> alone(blocks_of({"", 2, 1, 16, 4, false, {100}, {{90}}}));
  const auto copy = [](Guarded<float>& from, std::int64_t first, Guarded<float>& to) {
    for (std::int64_t row = 0; row < to.matrix().rows; ++row) {
      std::copy_n(from.matrix().row(first + row), to.matrix().columns, to.matrix().row(row));
    }
  };
  copy(packed.query, 4, alone.query);
  copy(packed.block_key, 4, alone.block_key);
  copy(packed.block_value, 4, alone.block_value);
  copy(packed.context_key, 37, alone.context_key);
  copy(packed.context_value, 37, alone.context_value);
  packed.forward();
  alone.forward();
  Guarded<float> expected(4, 32);
  copy(packed.output, 4, expected);
  EXPECT_TRUE(expected.bits() == alone.output.bits());
}

}  // namespace
}  // namespace draftsmith::test
