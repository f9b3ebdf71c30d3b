#include "kernels/cross_entropy.h"

#include <gtest/gtest.h>

#include "reference/cross_entropy.h"
#include "support/budget.h"
#include "support/complex_step.h"
#include "support/devices.h"
#include "support/guard.h"
#include "support/kernel_types.h"
#include "support/run_on.h"

namespace draftsmith::test {
namespace {

template <typename T>
class CrossEntropyTest : public testing::Test {};
TYPED_TEST_SUITE(CrossEntropyTest, StorageTypes, StorageName);

template <typename T>
struct Operands {
  Guarded<float> nll, log_sum_exp, weights;
  Guarded<std::int32_t> predictions;
  Guarded<T> logits, grad_logits;
  VisibleVector<std::int32_t> labels;

  Operands(std::int64_t rows, std::int64_t vocabulary)
      : nll(1, rows),
        log_sum_exp(1, rows),
        weights(1, rows),
        predictions(1, rows),
        logits(rows, vocabulary, 3, 1),
        grad_logits(rows, vocabulary, 5) {
    logits.fill_normal(1, 4);
    weights.fill_normal(2, 0.2, 1);
    for (std::int64_t row = 0; row < rows; ++row) {
      labels.push_back(static_cast<std::int32_t>(row % 4 == 3 ? -1 : row * 31 % vocabulary));
    }
  }

  Vector<const std::int32_t> label_vector() const {
    return {labels.data(), static_cast<std::int64_t>(labels.size())};
  }

  void forward(int threads = 1) {
    const Device device = test_device(threads);
    run_on<T>(device, CrossEntropyForward<T>{.logits = logits.matrix(),
                                             .labels = label_vector(),
                                             .nll = nll.vector(),
                                             .log_sum_exp = log_sum_exp.vector(),
                                             .predictions = predictions.vector()});
  }
  void backward(int threads = 1) { backward(grad_logits.matrix(), threads); }
  void backward(Matrix<T> gradient, int threads) {
    const Device device = test_device(threads);
    run_on<T>(device, CrossEntropyBackward<T>{.logits = logits.matrix(),
                                              .labels = label_vector(),
                                              .log_sum_exp = log_sum_exp.vector(),
                                              .weights = weights.vector(),
                                              .grad_logits = gradient});
  }
};

TYPED_TEST(CrossEntropyTest, ForwardAndBackwardMatchTheFormula) {
  for (const auto& [rows, vocabulary] : {std::pair{1, 1}, {6, 16}, {9, 37}, {4, 130}}) {
    Operands<TypeParam> run(rows, vocabulary);
    run.forward();
    run.backward();
    const std::vector<double> logits = run.logits.values(), weights = run.weights.values();
    // The sum's relative error is the logarithm's absolute one; the rest rounds numbers of the logits' size.
    const double largest = largest_magnitude(logits);
    expect_close(run.nll.values(), cross_entropy_reference(logits, run.labels),
                 {.terms = vocabulary + 12, .scale = 1 + largest});
    std::vector<double> gradient = complex_step_gradient(
        logits, [&](const auto& moved) { return dot(weights, cross_entropy_reference(moved, run.labels)); });
    // exp carries the absolute error of its argument.
    expect_close(run.grad_logits.values(), gradient,
                 {.stored_as = kDType<TypeParam>,
                  .terms = static_cast<std::int64_t>(vocabulary + 12 + 4 * largest),
                  .scale = largest_magnitude(weights)});
    run.nll.expect_guards_intact();
    run.log_sum_exp.expect_guards_intact();
    run.predictions.expect_guards_intact();
    run.grad_logits.expect_guards_intact();
  }
}

TYPED_TEST(CrossEntropyTest, UnusedRowsGiveZeroEvenWhenTheirLogitsAreNot) {
  Operands<TypeParam> run(4, 40);
  for (std::int64_t c = 0; c < 40; ++c) run.logits.matrix()(3, c) = TypeParam(std::nanf(""));
  run.weights.vector()[3] = 0;
  run.forward();
  run.backward();
  EXPECT_EQ(run.nll.vector()[3], 0.0f);
  EXPECT_EQ(run.predictions.vector()[3], -1);
  for (std::int64_t c = 0; c < 40; ++c) EXPECT_EQ(static_cast<float>(run.grad_logits.matrix()(3, c)), 0.0f);
}

TYPED_TEST(CrossEntropyTest, ThePredictionIsTheLowestIndexOfTheLargest) {
  const std::int64_t vocabulary = 53;
  for (const auto& [low, high] : {std::pair{0, 52}, {5, 21}, {16, 17}, {33, 49}, {48, 52}}) {
    Operands<TypeParam> run(1, vocabulary);
    for (std::int64_t c = 0; c < vocabulary; ++c)
      run.logits.matrix()(0, c) = TypeParam(-1000.0f - static_cast<float>(c));
    run.logits.matrix()(0, low) = run.logits.matrix()(0, high) = TypeParam(-3.0f);
    run.forward();
    EXPECT_EQ(run.predictions.vector()[0], low);
    run.predictions.poison();
    Guarded<float> decoded(1, vocabulary, 3, 1);
    std::copy_n(run.logits.matrix().row(0), vocabulary, decoded.matrix().row(0));
    const Device device = test_device();
    run_on<TypeParam>(
        device, ArgmaxRows<TypeParam>{.logits = decoded.matrix(), .predictions = run.predictions.vector()});
    EXPECT_EQ(run.predictions.vector()[0], low);
  }
}

TYPED_TEST(CrossEntropyTest, LargeLogitsDoNotOverflow) {
  Operands<TypeParam> run(1, 20);
  run.labels[0] = 2;
  for (std::int64_t c = 0; c < 20; ++c) run.logits.matrix()(0, c) = TypeParam(c == 1 ? 0x1p15f : -0x1p15f);
  run.forward();
  run.backward();
  EXPECT_EQ(run.nll.vector()[0], 0x1p16f);
  EXPECT_EQ(run.predictions.vector()[0], 1);
  EXPECT_EQ(run.grad_logits.matrix()(0, 1), static_cast<TypeParam>(run.weights.vector()[0]));
  EXPECT_EQ(static_cast<float>(run.grad_logits.matrix()(0, 0)), 0.0f);
}

TYPED_TEST(CrossEntropyTest, ANonFiniteLogitShowsInTheLoss) {
  Operands<TypeParam> run(1, 40);
  run.logits.matrix()(0, 33) = TypeParam(std::nanf(""));
  run.forward();
  EXPECT_TRUE(std::isnan(run.nll.vector()[0]));
}

// With rows on 16 bytes and off them.
TYPED_TEST(CrossEntropyTest, TheGradientMayTakeThePlaceOfTheLogits) {
  for (const std::int64_t vocabulary : {37, 64, 1003}) {
    Operands<TypeParam> run(9, vocabulary);
    run.forward();
    run.backward();
    run.backward(run.logits.matrix(), 3);
    EXPECT_TRUE(run.logits.bits() == run.grad_logits.bits()) << vocabulary;
    run.logits.expect_guards_intact();
  }
}

TYPED_TEST(CrossEntropyTest, ThreadsChangeNoBit) {
  Operands<TypeParam> one(71, 1003);
  one.forward(1);
  one.backward(1);
  for (const int threads : {2, 3}) {
    Operands<TypeParam> many(71, 1003);
    many.forward(threads);
    many.backward(threads);
    EXPECT_TRUE(one.nll.bits() == many.nll.bits());
    EXPECT_TRUE(one.predictions.bits() == many.predictions.bits());
    EXPECT_TRUE(one.grad_logits.bits() == many.grad_logits.bits());
  }
}

}  // namespace
}  // namespace draftsmith::test
