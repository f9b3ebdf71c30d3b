#include "kernels/rmsnorm.h"

#include <cmath>

#include <gtest/gtest.h>

#include "reference/rmsnorm.h"
#include "support/budget.h"
#include "support/complex_step.h"
#include "support/devices.h"
#include "support/guard.h"
#include "support/kernel_types.h"
#include "support/run_on.h"

namespace draftsmith::test {
namespace {

constexpr float kEpsilon = 1e-6f;

template <typename T>
class RmsNormTest : public testing::Test {};
TYPED_TEST_SUITE(RmsNormTest, StorageTypes, StorageName);

template <typename T>
struct Operands {
  std::int64_t rows, width;
  Guarded<T> input, addend, sum, weight, output, grad_output, grad_residual, grad_sum;
  Guarded<float> inverse_rms, grad_weight;

  Operands(std::int64_t rows, std::int64_t width)
      : rows(rows),
        width(width),
        input(rows, width, 3),
        addend(rows, width, 1, 1),
        sum(rows, width, 5),
        weight(1, width),
        output(rows, width, 2, 3),
        grad_output(rows, width, 0),
        grad_residual(rows, width, 9),
        grad_sum(rows, width, 4),
        inverse_rms(1, rows),
        grad_weight(1, width) {
    input.fill_normal(1, 2);
    addend.fill_normal(2, 0.5);
    weight.fill_normal(3, 0.3, 1);
    grad_output.fill_normal(4);
    grad_residual.fill_normal(5);
    grad_weight.fill_normal(6);
  }

  void forward(bool with_addend, int threads = 1) {
    const Device device = test_device(threads);
    run_on<T>(device, RmsNormForward<T>{.input = input.matrix(),
                                        .addend = with_addend ? addend.matrix() : Matrix<T>{},
                                        .sum = with_addend ? sum.matrix() : Matrix<T>{},
                                        .weight = weight.vector(),
                                        .output = output.matrix(),
                                        .inverse_rms = inverse_rms.vector(),
                                        .epsilon = kEpsilon});
  }

  void backward(Guarded<T>& normed, bool with_residual, int threads = 1,
                Vector<const float> row_weights = {}) {
    const Device device = test_device(threads);
    run_on<T>(device,
              RmsNormBackward<T>{.sum = normed.matrix(),
                                 .weight = weight.vector(),
                                 .inverse_rms = inverse_rms.vector(),
                                 .grad_output = grad_output.matrix(),
                                 .row_weights = row_weights,
                                 .grad_residual = with_residual ? grad_residual.matrix() : Matrix<T>{},
                                 .grad_sum = grad_sum.matrix(),
                                 .grad_weight = grad_weight.vector()});
  }

  void expect_guards_intact() {
    for (const Guarded<T>* tensor : {&sum, &output, &grad_sum}) tensor->expect_guards_intact();
    inverse_rms.expect_guards_intact();
    grad_weight.expect_guards_intact();
  }
};

// The output rounds twice to T (the normed value, then the product); r sums `width` squares, halved by the
// root.
template <typename T>
Budget forward_budget(std::int64_t width) {
  return {.stored_as = kDType<T>, .stored = 2, .terms = width / 2 + 6};
}

// Of r * h - s * r^3 * sum(h * s) / n + g in units of the float's roundoff: r carries half the roundings of
// its sum of `width` squares, the other sum all of its own.
template <typename T>
std::vector<double> grad_sum_errors(Operands<T>& run) {
  const std::vector<double> r = run.inverse_rms.values(), weight = run.weight.values();
  const std::vector<double> s = run.input.values(), grad_output = run.grad_output.values();
  const std::vector<double> residual = run.grad_residual.values();
  const std::size_t width = weight.size();
  const double terms = static_cast<double>(width);
  std::vector<double> errors;
  for (std::size_t row = 0; row < r.size(); ++row) {
    double products = 0;
    for (std::size_t c = 0; c < width; ++c) {
      products += std::abs(grad_output[row * width + c] * weight[c] * s[row * width + c]);
    }
    for (std::size_t c = 0; c < width; ++c) {
      const std::size_t i = row * width + c;
      const double along = std::abs(s[i]) * r[row] * r[row] * r[row] * products / terms;
      const double direct = r[row] * std::abs(grad_output[i] * weight[c]);
      errors.push_back((terms / 2 + 6) * direct + (3 * terms / 2 + terms + 8) * along +
                       2 * std::abs(residual[i]));
    }
  }
  return errors;
}

TYPED_TEST(RmsNormTest, ForwardMatchesTheFormula) {
  for (const auto& [rows, width] : {std::pair{1, 1}, {3, 17}, {7, 64}, {5, 250}}) {
    Operands<TypeParam> run(rows, width);
    run.forward(false);
    expect_close(run.output.values(), rmsnorm_reference(run.input.values(), run.weight.values(), kEpsilon),
                 forward_budget<TypeParam>(width));
    run.expect_guards_intact();
  }
}

TYPED_TEST(RmsNormTest, ForwardAddsTheResidualFirst) {
  Operands<TypeParam> run(6, 100);
  run.forward(true);
  std::vector<double> sum = run.input.values();
  const std::vector<double> addend = run.addend.values();
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += addend[i];
  expect_close(run.sum.values(), sum, {.stored_as = kDType<TypeParam>});
  expect_close(run.output.values(), rmsnorm_reference(run.sum.values(), run.weight.values(), kEpsilon),
               forward_budget<TypeParam>(100));
  run.expect_guards_intact();
}

TYPED_TEST(RmsNormTest, TheSumMayReplaceTheInput) {
  Operands<TypeParam> apart(4, 40), together(4, 40);
  apart.forward(true);
  const Device device = test_device();
  run_on<TypeParam>(device, RmsNormForward<TypeParam>{.input = together.input.matrix(),
                                                      .addend = together.addend.matrix(),
                                                      .sum = together.input.matrix(),
                                                      .weight = together.weight.vector(),
                                                      .output = together.output.matrix(),
                                                      .epsilon = kEpsilon});
  EXPECT_TRUE(apart.output.bits() == together.output.bits());
  EXPECT_TRUE(apart.sum.bits() == together.input.bits());
}

TYPED_TEST(RmsNormTest, BackwardIsTheDerivativeOfForward) {
  for (const bool with_residual : {false, true}) {
    const std::int64_t rows = 70, width = 21;
    Operands<TypeParam> run(rows, width);
    run.forward(false);
    const std::vector<double> input = run.input.values(), weight = run.weight.values();
    const std::vector<double> grad_output = run.grad_output.values(), residual = run.grad_residual.values();
    std::vector<double> grad_weight = run.grad_weight.values();
    run.backward(run.input, with_residual);

    const auto loss = [&](const std::vector<Complex>& sum, const std::vector<Complex>& weights) {
      return dot(grad_output, rmsnorm_reference(sum, weights, kEpsilon));
    };
    const std::vector<Complex> fixed_input(input.begin(), input.end()),
        fixed_weight(weight.begin(), weight.end());
    std::vector<double> grad_sum =
        complex_step_gradient(input, [&](const auto& moved) { return loss(moved, fixed_weight); });
    if (with_residual) {
      for (std::size_t i = 0; i < grad_sum.size(); ++i) grad_sum[i] += residual[i];
    }
    const auto added =
        complex_step_gradient(weight, [&](const auto& moved) { return loss(fixed_input, moved); });
    for (std::size_t i = 0; i < added.size(); ++i) grad_weight[i] += added[i];

    expect_within(run.grad_sum.values(), grad_sum, grad_sum_errors(run), kDType<TypeParam>);
    const double largest_r = largest_magnitude(run.inverse_rms.values());
    const double normed = largest_magnitude(input) * largest_r * largest_magnitude(grad_output);
    expect_close(run.grad_weight.values(), grad_weight,
                 {.terms = rows + width / 2 + 8, .scale = normed * rows});
    run.expect_guards_intact();
  }
}

// Powers of two scale without rounding, wherever they come in.
TYPED_TEST(RmsNormTest, ARowsGradientCountsItsWeight) {
  const std::int64_t rows = 70, width = 37;
  Operands<TypeParam> weighted(rows, width), scaled(rows, width);
  VisibleVector<float> weights;
  for (std::int64_t row = 0; row < rows; ++row) {
    weights.push_back(row % 5 == 4 ? 0.0f : std::ldexp(1.0f, static_cast<int>(row % 5) - 2));
    for (std::int64_t c = 0; c < width; ++c) {
      auto& entry = scaled.grad_output.matrix()(row, c);
      entry = static_cast<TypeParam>(static_cast<float>(entry) * weights.back());
    }
  }
  for (Operands<TypeParam>* run : {&weighted, &scaled}) run->forward(false);
  weighted.backward(weighted.input, true, 2, {weights.data(), rows});
  scaled.backward(scaled.input, true, 2);
  EXPECT_EQ(weighted.grad_sum.values(), scaled.grad_sum.values());
  EXPECT_EQ(weighted.grad_weight.values(), scaled.grad_weight.values());
  weighted.expect_guards_intact();
}

TYPED_TEST(RmsNormTest, TheGradientMayReplaceTheResidual) {
  Operands<TypeParam> apart(5, 33), together(5, 33);
  apart.forward(false);
  together.forward(false);
  apart.backward(apart.input, true);
  const Device device = test_device();
  run_on<TypeParam>(device, RmsNormBackward<TypeParam>{.sum = together.input.matrix(),
                                                       .weight = together.weight.vector(),
                                                       .inverse_rms = together.inverse_rms.vector(),
                                                       .grad_output = together.grad_output.matrix(),
                                                       .grad_residual = together.grad_residual.matrix(),
                                                       .grad_sum = together.grad_residual.matrix(),
                                                       .grad_weight = together.grad_weight.vector()});
  EXPECT_TRUE(apart.grad_sum.bits() == together.grad_residual.bits());
}

TYPED_TEST(RmsNormTest, NeitherThreadsNorTheRowsPlaceChangeABit) {
  const std::int64_t rows = 300, width = 1003;
  Operands<TypeParam> one(rows, width);
  for (std::int64_t row = 1; row < rows; ++row) {  // equal rows
    std::copy_n(one.input.matrix().row(0), width, one.input.matrix().row(row));
  }
  one.forward(false);
  for (std::int64_t row = 1; row < rows; ++row) {
    ASSERT_EQ(0, std::memcmp(one.output.matrix().row(0), one.output.matrix().row(row),
                             static_cast<std::size_t>(width) * sizeof(TypeParam)));
  }
  Operands<TypeParam> first(rows, width);
  first.forward(true, 1);
  first.backward(first.sum, true, 1);
  for (const int threads : {2, 3}) {
    Operands<TypeParam> many(rows, width);
    many.forward(true, threads);
    many.backward(many.sum, true, threads);
    EXPECT_TRUE(first.output.bits() == many.output.bits());
    EXPECT_TRUE(first.grad_sum.bits() == many.grad_sum.bits());
    EXPECT_TRUE(first.grad_weight.bits() == many.grad_weight.bits());
  }
}

}  // namespace
}  // namespace draftsmith::test
