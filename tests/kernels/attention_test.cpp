// Attention against the plain formula in double, forward and backward.
#include "kernels/attention.h"

#include <gtest/gtest.h>

#include "base/heap.h"
#include "kernels/attention_operands.h"
#include "support/complex_step.h"

namespace draftsmith::test {
namespace {

class AttentionTest : public testing::TestWithParam<AttentionLayout> {};

template <typename T>
void expect_formula(const AttentionLayout& layout) {
  AttentionOperands<T> run(case_of(layout));
  run.forward();
  expect_forward(run);
  run.backward();
  expect_backward(run);
  run.expect_guards_intact();
}

TEST_P(AttentionTest, MatchesTheFormulaInFloat) { expect_formula<float>(GetParam()); }
TEST_P(AttentionTest, MatchesTheFormulaInBf16) { expect_formula<bf16>(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Layouts, AttentionTest, testing::ValuesIn(kAttentionLayouts),
                         [](const auto& param) { return param.param.name; });

TEST(AttentionReferenceTest, GradientIsTheDerivativeByComplexStep) {
  const AttentionCase at = blocks_of({"", 2, 1, 4, 3, true, {6, 4}, {{0, 5, -1}, {3}}, 4});
  AttentionOperands<float> run(at);
  const AttentionInputs<double> inputs = run.inputs();
  const std::vector<double> grad_output = run.grad_output.values();
  const AttentionInputs<double> gradient =
      attention_gradient_reference(at, inputs, attention_reference(at, inputs), grad_output);
  const auto expect_derivative = [&](std::vector<double> AttentionInputs<double>::*real,
                                     std::vector<Complex> AttentionInputs<Complex>::*member) {
    const auto derivative = complex_step_gradient(inputs.*real, [&](const std::vector<Complex>& moved) {
      AttentionInputs<Complex> all{{inputs.query.begin(), inputs.query.end()},
                                   {inputs.context_key.begin(), inputs.context_key.end()},
                                   {inputs.context_value.begin(), inputs.context_value.end()},
                                   {inputs.block_key.begin(), inputs.block_key.end()},
                                   {inputs.block_value.begin(), inputs.block_value.end()}};
      all.*member = moved;
      return dot(grad_output, attention_reference(at, all));
    });
    for (std::size_t i = 0; i < derivative.size(); ++i) {
      ASSERT_NEAR((gradient.*real)[i], derivative[i], 1e-12 * largest_magnitude(derivative)) << i;
    }
  };
  using Real = AttentionInputs<double>;
  using Moved = AttentionInputs<Complex>;
  expect_derivative(&Real::query, &Moved::query);
  expect_derivative(&Real::context_key, &Moved::context_key);
  expect_derivative(&Real::context_value, &Moved::context_value);
  expect_derivative(&Real::block_key, &Moved::block_key);
  expect_derivative(&Real::block_value, &Moved::block_value);
}

TEST(AttentionTest, ARowThatSeesNothingIsZero) {
  AttentionCase at = prefill_of({"", 2, 1, 16, 0, false, {6}, {}});
  at.begin = {0, 0, 3, 0, 2, 5};
  at.end = {1, 0, 3, -1, 6, 5};
  AttentionOperands<float> run(at);
  run.forward();
  run.backward();
  for (const std::int64_t row : {1, 2, 3, 5}) {
    for (std::int64_t column = 0; column < 32; ++column) {
      EXPECT_EQ(run.output.matrix()(row, column), 0.0f);
      EXPECT_EQ(run.grad_query.matrix()(row, column), 0.0f);
    }
    EXPECT_EQ(run.log_sum_exp.matrix()(row, 1), -std::numeric_limits<float>::infinity());
  }
  expect_backward(run);
}

TEST(AttentionTest, NeitherDirectionTakesHeap) {
  AttentionOperands<bf16> run(blocks_of({"", 4, 2, 64, 8, false, {200}, {{100, 180}}}));
  const std::int64_t before = heap_counts().ours;
  run.forward(2);
  run.backward(2);
  EXPECT_EQ(heap_counts().ours, before);
}

TEST(AttentionTest, LargeScoresDoNotOverflow) {
  AttentionOperands<float> run(blocks_of({"", 1, 1, 16, 4, false, {70}, {{69}}}));
  run.query.fill_normal(1, 60);
  run.forward();
  run.backward();
  for (const double value : run.output.values()) EXPECT_TRUE(std::isfinite(value));
  for (const double value : run.grad_query.values()) EXPECT_TRUE(std::isfinite(value));
}

}  // namespace
}  // namespace draftsmith::test
