#include "kernels/cross_entropy.h"

#include <algorithm>
#include <cstring>
#include <numeric>

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
  Guarded<float> nll, log_sum_exp;
  Guarded<std::int32_t> predictions;
  Guarded<T> logits, gradient;  // gradient: the logits until it takes their place
  VisibleVector<std::int32_t> labels;

  Operands(std::int64_t rows, std::int64_t vocabulary)
      : nll(1, rows),
        log_sum_exp(1, rows),
        predictions(1, rows),
        logits(rows, vocabulary, 3, 1),
        gradient(rows, vocabulary, 5) {
    logits.fill_normal(1, 4);
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
  void with_gradient(int threads = 1) {
    const Device device = test_device(threads);
    for (std::int64_t row = 0; row < logits.matrix().rows; ++row) {
      std::copy_n(logits.matrix().row(row), logits.matrix().columns, gradient.matrix().row(row));
    }
    run_on<T>(device, CrossEntropyWithGradient<T>{.logits = gradient.matrix(),
                                                  .labels = label_vector(),
                                                  .nll = nll.vector(),
                                                  .predictions = predictions.vector()});
  }

  // The sum's relative error is the logarithm's absolute one; the rest rounds numbers of the logits' size.
  void expect_nll() {
    const std::vector<double> values = logits.values();
    expect_close(nll.values(), cross_entropy_reference(values, labels),
                 {.terms = logits.matrix().columns + 12, .scale = 1 + largest_magnitude(values)});
  }
};

TYPED_TEST(CrossEntropyTest, ForwardAndGradientMatchTheFormula) {
  for (const auto& [rows, vocabulary] : {std::pair{1, 1}, {6, 16}, {9, 37}, {4, 130}, {5, 1024}}) {
    Operands<TypeParam> run(rows, vocabulary);
    run.forward();
    run.expect_nll();
    run.nll.expect_guards_intact();
    run.log_sum_exp.expect_guards_intact();
    run.predictions.expect_guards_intact();
    run.nll.poison();
    run.predictions.poison();
    run.with_gradient();
    run.expect_nll();
    const std::vector<double> logits = run.logits.values();
    const std::vector<double> gradient = complex_step_gradient(logits, [&](const auto& moved) {
      const auto nll = cross_entropy_reference(moved, run.labels);
      return std::accumulate(nll.begin(), nll.end(), 0.0 * nll[0]);
    });
    // exp carries the absolute error of its argument.
    expect_close(run.gradient.values(), gradient,
                 {.stored_as = kDType<TypeParam>,
                  .terms = static_cast<std::int64_t>(vocabulary + 12 + 4 * largest_magnitude(logits))});
    run.nll.expect_guards_intact();
    run.predictions.expect_guards_intact();
    run.gradient.expect_guards_intact();
  }
}

// As wide as real ones, where a fast implementation cuts a row into parts: odd, of whole vectors, of one part and of many.
TYPED_TEST(CrossEntropyTest, WideVocabulariesMatchTheFormula) {
  for (const std::int64_t vocabulary : {20480, 20488, 32001, 49152, 151936, 262144}) {
    Operands<TypeParam> run(5, vocabulary);
    run.labels = {0, static_cast<std::int32_t>(vocabulary - 1), static_cast<std::int32_t>(vocabulary / 2), -1,
                  7};
    const std::int64_t last = vocabulary - 3;
    run.logits.matrix()(0, last) = run.logits.matrix()(0, last - 5) = TypeParam(40.0f);
    run.with_gradient();
    run.expect_nll();
    EXPECT_EQ(run.predictions.vector()[0], last - 5);
    EXPECT_EQ(run.predictions.vector()[3], -1);
    const std::vector<double> logits = run.logits.values(), found = run.gradient.values();
    const double largest = largest_magnitude(logits);
    std::vector<double> expected(found.size());
    for (std::int64_t row = 0; row < 5; ++row) {
      if (run.labels[row] < 0) continue;
      const double* x = &logits[row * vocabulary];
      double sum = 0;
      for (std::int64_t c = 0; c < vocabulary; ++c) sum += std::exp(x[c] - largest);
      for (std::int64_t c = 0; c < vocabulary; ++c) {
        expected[row * vocabulary + c] = std::exp(x[c] - largest) / sum - (c == run.labels[row] ? 1 : 0);
      }
    }
    // Sums are of parts; a part's terms are at most a 512th of the row's and 64 parts are added to each other.
    expect_close(found, expected,
                 {.stored_as = kDType<TypeParam>,
                  .terms = static_cast<std::int64_t>(vocabulary / 16 + 64 + 4 * largest)});
    run.gradient.expect_guards_intact();
  }
}

TYPED_TEST(CrossEntropyTest, UnusedRowsGiveZeroEvenWhenTheirLogitsAreNot) {
  for (const std::int64_t vocabulary : {40, 4096}) {
    Operands<TypeParam> run(4, vocabulary);
    for (std::int64_t c = 0; c < vocabulary; ++c) run.logits.matrix()(3, c) = TypeParam(std::nanf(""));
    run.forward();
    EXPECT_EQ(run.nll.vector()[3], 0.0f);
    EXPECT_EQ(run.predictions.vector()[3], -1);
    run.nll.poison();
    run.with_gradient();
    EXPECT_EQ(run.nll.vector()[3], 0.0f);
    EXPECT_EQ(run.predictions.vector()[3], -1);
    for (std::int64_t c = 0; c < vocabulary; ++c) {
      ASSERT_EQ(static_cast<float>(run.gradient.matrix()(3, c)), 0.0f);
    }
  }
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
    run.with_gradient();
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
  for (const std::int64_t vocabulary : {20, 4096}) {
    Operands<TypeParam> run(1, vocabulary);
    run.labels[0] = 2;
    for (std::int64_t c = 0; c < vocabulary; ++c) {
      run.logits.matrix()(0, c) = TypeParam(c == 1 ? 0x1p15f : -0x1p15f);
    }
    run.forward();
    EXPECT_EQ(run.nll.vector()[0], 0x1p16f);
    run.nll.poison();
    run.with_gradient();
    EXPECT_EQ(run.nll.vector()[0], 0x1p16f);
    EXPECT_EQ(run.predictions.vector()[0], 1);
    EXPECT_EQ(static_cast<float>(run.gradient.matrix()(0, 0)), 0.0f);
    EXPECT_EQ(static_cast<float>(run.gradient.matrix()(0, 1)), 1.0f);
    EXPECT_EQ(static_cast<float>(run.gradient.matrix()(0, 2)), -1.0f);
  }
}

TYPED_TEST(CrossEntropyTest, ANonFiniteLogitShowsInTheLoss) {
  for (const std::int64_t vocabulary : {40, 4096}) {
    Operands<TypeParam> run(1, vocabulary);
    run.logits.matrix()(0, 33) = TypeParam(std::nanf(""));
    run.forward();
    EXPECT_TRUE(std::isnan(run.nll.vector()[0]));
    run.nll.vector()[0] = 0;
    run.with_gradient();
    EXPECT_TRUE(std::isnan(run.nll.vector()[0]));
  }
}

TYPED_TEST(CrossEntropyTest, ThreadsChangeNoBit) {
  Operands<TypeParam> one(71, 1003);
  one.with_gradient(1);
  for (const int threads : {2, 3}) {
    Operands<TypeParam> many(71, 1003);
    many.forward(threads);
    EXPECT_TRUE(one.nll.bits() == many.nll.bits());
    EXPECT_TRUE(one.predictions.bits() == many.predictions.bits());
    many.with_gradient(threads);
    EXPECT_TRUE(one.nll.bits() == many.nll.bits());
    EXPECT_TRUE(one.predictions.bits() == many.predictions.bits());
    EXPECT_TRUE(one.gradient.bits() == many.gradient.bits());
  }
}

// A second run of the same rows, whatever lies around them.
TYPED_TEST(CrossEntropyTest, ARowHasTheSameBitsWhereverItLies) {
  const std::int64_t vocabulary = 32768;
  Operands<TypeParam> many(9, vocabulary), alone(1, vocabulary);
  many.labels.assign(9, 5);
  alone.labels.assign(1, 5);
  std::copy_n(many.logits.matrix().row(6), vocabulary, alone.logits.matrix().row(0));
  many.with_gradient();
  alone.with_gradient();
  EXPECT_EQ(many.nll.vector()[6], alone.nll.vector()[0]);
  EXPECT_EQ(0, std::memcmp(many.gradient.matrix().row(6), alone.gradient.matrix().row(0),
                           static_cast<std::size_t>(vocabulary) * sizeof(TypeParam)));
}

}  // namespace
}  // namespace draftsmith::test
