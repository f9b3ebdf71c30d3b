#include "kernels/distillation.h"

#include <cmath>

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

constexpr float kShare = 0.3f, kTemperature = 2.5f;

// KL(softmax(t / T) || softmax(s / T)) of each row, through negative log likelihoods of every label.
template <typename Scalar>
std::vector<Scalar> divergence_reference(const std::vector<Scalar>& logits,
                                         const std::vector<double>& teacher,
                                         const VisibleVector<std::int32_t>& labels) {
  const std::size_t vocabulary = logits.size() / labels.size();
  std::vector<Scalar> divergence(labels.size());
  for (std::size_t row = 0; row < labels.size(); ++row) {
    if (labels[row] < 0) continue;
    Scalar s_sum{};
    double t_sum = 0;
    for (std::size_t c = 0; c < vocabulary; ++c) {
      s_sum += std::exp(logits[row * vocabulary + c] / double{kTemperature});
      t_sum += std::exp(teacher[row * vocabulary + c] / double{kTemperature});
    }
    for (std::size_t c = 0; c < vocabulary; ++c) {
      const Scalar log_s = logits[row * vocabulary + c] / double{kTemperature} - std::log(s_sum);
      const double log_t = teacher[row * vocabulary + c] / double{kTemperature} - std::log(t_sum);
      divergence[row] += std::exp(log_t) * (log_t - log_s);
    }
  }
  return divergence;
}

template <typename T>
class DistillationTest : public testing::Test {};
TYPED_TEST_SUITE(DistillationTest, StorageTypes, StorageName);

template <typename T>
struct Operands {
  std::int64_t rows;
  Guarded<float> nll, hard, divergence, log_sum_exp, teacher_log_sum_exp;
  Guarded<std::int32_t> predictions;
  Guarded<T> logits, teacher, grad_logits;
  VisibleVector<std::int32_t> labels;

  Operands(std::int64_t rows, std::int64_t vocabulary)
      : rows(rows),
        nll(1, rows),
        hard(1, rows),
        divergence(1, rows),
        log_sum_exp(1, rows),
        teacher_log_sum_exp(1, rows),
        predictions(1, rows),
        logits(rows, vocabulary, 3, 1),
        teacher(rows, vocabulary, 2),
        grad_logits(rows, vocabulary, 5) {
    logits.fill_normal(1, 4);
    teacher.fill_normal(2, 4);
    for (std::int64_t row = 0; row < rows; ++row) {
      labels.push_back(static_cast<std::int32_t>(row % 4 == 3 ? -1 : row * 31 % vocabulary));
    }
  }

  void run(int threads = 1) { run(grad_logits.matrix(), threads); }
  void run(Matrix<T> gradient, int threads) {
    const Device device = test_device(threads);
    const Vector<const std::int32_t> label{labels.data(), rows};
    run_on<T>(device, CrossEntropyForward<T>{.logits = logits.matrix(),
                                             .labels = label,
                                             .nll = nll.vector(),
                                             .log_sum_exp = hard.vector(),
                                             .predictions = predictions.vector()});
    run_on<T>(device, DistillationForward<T>{.logits = logits.matrix(),
                                             .teacher_logits = teacher.matrix(),
                                             .labels = label,
                                             .temperature = kTemperature,
                                             .divergence = divergence.vector(),
                                             .log_sum_exp = log_sum_exp.vector(),
                                             .teacher_log_sum_exp = teacher_log_sum_exp.vector()});
    run_on<T>(device, DistillationBackward<T>{.logits = logits.matrix(),
                                              .teacher_logits = teacher.matrix(),
                                              .labels = label,
                                              .hard_log_sum_exp = hard.vector(),
                                              .log_sum_exp = log_sum_exp.vector(),
                                              .teacher_log_sum_exp = teacher_log_sum_exp.vector(),
                                              .share = kShare,
                                              .temperature = kTemperature,
                                              .grad_logits = gradient});
  }
};

TYPED_TEST(DistillationTest, ForwardAndBackwardMatchTheFormula) {
  for (const auto& [rows, vocabulary] : {std::pair{1, 1}, {6, 16}, {9, 37}, {4, 130}}) {
    Operands<TypeParam> run(rows, vocabulary);
    run.run();
    const std::vector<double> logits = run.logits.values();
    const std::vector<double> teacher = run.teacher.values();
    const double largest = largest_magnitude(logits) + largest_magnitude(teacher);
    expect_close(run.divergence.values(), divergence_reference(logits, teacher, run.labels),
                 {.terms = vocabulary + 24, .scale = 1 + largest});
    const auto loss = [&](const auto& moved) {
      const auto nll = cross_entropy_reference(moved, run.labels);
      const auto divergence = divergence_reference(moved, teacher, run.labels);
      auto total = nll[0] * 0.0;
      for (std::size_t row = 0; row < nll.size(); ++row) {
        total += (1.0 - kShare) * nll[row] + double{kShare} * kTemperature * kTemperature * divergence[row];
      }
      return total;
    };
    // exp carries the absolute error of its argument; soft entries are scaled by share * temperature < 1.
    expect_close(run.grad_logits.values(), complex_step_gradient(logits, loss),
                 {.stored_as = kDType<TypeParam>,
                  .terms = static_cast<std::int64_t>(2 * vocabulary + 24 + 8 * largest),
                  .scale = 2});
    run.grad_logits.expect_guards_intact();
    run.divergence.expect_guards_intact();
  }
}

TYPED_TEST(DistillationTest, ATeacherThatAgreesLeavesTheHardGradient) {
  Operands<TypeParam> run(5, 20);
  for (std::int64_t r = 0; r < 5; ++r)
    std::copy_n(run.logits.matrix().row(r), 20, run.teacher.matrix().row(r));
  run.run();
  for (const double divergence : run.divergence.values()) EXPECT_EQ(divergence, 0);
}

TYPED_TEST(DistillationTest, TheGradientMayTakeThePlaceOfTheLogits) {
  for (const std::int64_t vocabulary : {37, 64, 1003}) {
    Operands<TypeParam> apart(9, vocabulary), in_place(9, vocabulary);
    apart.run();
    in_place.run(in_place.logits.matrix(), 3);
    EXPECT_TRUE(in_place.logits.bits() == apart.grad_logits.bits()) << vocabulary;
    in_place.logits.expect_guards_intact();
  }
}

TYPED_TEST(DistillationTest, BitsDoNotDependOnTheThreads) {
  Operands<TypeParam> one(64, 700), three(64, 700);
  one.run(1);
  three.run(3);
  EXPECT_EQ(one.grad_logits.bits(), three.grad_logits.bits());
  EXPECT_EQ(one.divergence.bits(), three.divergence.bits());
}

}  // namespace
}  // namespace draftsmith::test
