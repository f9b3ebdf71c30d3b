#include "kernels/head_norm_rope.h"

#include <gtest/gtest.h>

#include "reference/head_norm_rope.h"
#include "support/budget.h"
#include "support/complex_step.h"
#include "support/devices.h"
#include "support/guard.h"
#include "support/kernel_types.h"
#include "support/run_on.h"

namespace draftsmith::test {
namespace {

constexpr float kEpsilon = 1e-6f;
constexpr std::int64_t kPositions = 40;

template <typename T>
class HeadNormRopeTest : public testing::Test {};
TYPED_TEST_SUITE(HeadNormRopeTest, StorageTypes, StorageName);

template <typename T>
struct Operands {
  std::int64_t head_dim;
  bool normed;
  Guarded<T> input, weight, output, grad_output, grad_input;
  Guarded<float> inverse_rms, grad_weight, cosine, sine;
  VisibleVector<std::int32_t> positions;

  Operands(std::int64_t rows, std::int64_t heads, std::int64_t head_dim, bool normed = true)
      : head_dim(head_dim),
        normed(normed),
        input(rows, heads * head_dim, 3),
        weight(1, head_dim),
        output(rows, heads * head_dim, 1, 2),
        grad_output(rows, heads * head_dim, 5),
        grad_input(rows, heads * head_dim, 2, 1),
        inverse_rms(rows, heads, 1),
        grad_weight(1, head_dim),
        cosine(kPositions, head_dim / 2),
        sine(kPositions, head_dim / 2) {
    input.fill_normal(1, 2);
    weight.fill_normal(2, 0.3, 1);
    grad_output.fill_normal(3);
    grad_weight.fill_normal(4);
    for (std::int64_t position = 0; position < kPositions; ++position) {
      for (std::int64_t i = 0; i < head_dim / 2; ++i) {
        const double angle = static_cast<double>(position) *
                             std::pow(100.0, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
        cosine.matrix()(position, i) = static_cast<float>(std::cos(angle));
        sine.matrix()(position, i) = static_cast<float>(std::sin(angle));
      }
    }
    for (std::int64_t row = 0; row < rows; ++row) {
      positions.push_back(static_cast<std::int32_t>(row * 7 % kPositions));
    }
  }

  Vector<const std::int32_t> position_vector() const {
    return {positions.data(), static_cast<std::int64_t>(positions.size())};
  }

  void forward(Guarded<T>& to, int threads = 1) {
    const Device device = test_device(threads);
    run_on<T>(device, HeadNormRopeForward<T>{.input = input.matrix(),
                                             .weight = normed ? weight.vector() : Vector<T>{},
                                             .positions = position_vector(),
                                             .rope = {cosine.matrix(), sine.matrix()},
                                             .output = to.matrix(),
                                             .inverse_rms = normed ? inverse_rms.matrix() : Matrix<float>{},
                                             .head_dim = head_dim,
                                             .epsilon = kEpsilon});
  }

  void backward(Guarded<T>& to, int threads = 1) {
    const Device device = test_device(threads);
    run_on<T>(device, HeadNormRopeBackward<T>{.input = input.matrix(),
                                              .weight = normed ? weight.vector() : Vector<T>{},
                                              .inverse_rms = inverse_rms.matrix(),
                                              .positions = position_vector(),
                                              .rope = {cosine.matrix(), sine.matrix()},
                                              .grad_output = grad_output.matrix(),
                                              .grad_input = to.matrix(),
                                              .grad_weight = normed ? grad_weight.vector() : Vector<float>{},
                                              .head_dim = head_dim});
  }

  Rotation rotation() {
    Rotation rotation;
    for (const std::int32_t position : positions) {
      const float* c = cosine.matrix().row(position);
      const float* s = sine.matrix().row(position);
      rotation.cosine.emplace_back(c, c + head_dim / 2);
      rotation.sine.emplace_back(s, s + head_dim / 2);
    }
    return rotation;
  }
};

template <typename T>
void expect_formula(std::int64_t rows, std::int64_t heads, std::int64_t head_dim, bool normed) {
  Operands<T> run(rows, heads, head_dim, normed);
  const std::vector<double> input = run.input.values(), grad_output = run.grad_output.values();
  const std::vector<double> weight = normed ? run.weight.values() : std::vector<double>{};
  std::vector<double> grad_weight = run.grad_weight.values();
  run.forward(run.output);
  run.backward(run.grad_input);

  // The normed value rounds to T, is turned (its partner adds its own rounding, so the scale is the largest
  // entry), and rounds again.
  const Rotation rotation = run.rotation();
  const std::vector<double> expected = head_norm_rope_reference(input, weight, rotation, kEpsilon);
  const double turned = 2 * largest_magnitude(expected);
  const double extra_rounding = storage_roundoff(kDType<T>) / kUnitRoundoff<float>;
  const auto terms = static_cast<std::int64_t>(head_dim / 2 + 8 + (normed ? extra_rounding : 0.0));
  expect_close(run.output.values(), expected, {.stored_as = kDType<T>, .terms = terms, .scale = turned});

  const auto loss = [&](const std::vector<Complex>& x, const std::vector<Complex>& w) {
    return dot(grad_output, head_norm_rope_reference(x, w, rotation, kEpsilon));
  };
  const std::vector<Complex> fixed_input(input.begin(), input.end()),
      fixed_weight(weight.begin(), weight.end());
  const auto gradient =
      complex_step_gradient(input, [&](const auto& moved) { return loss(moved, fixed_weight); });
  const double largest_r = normed ? largest_magnitude(run.inverse_rms.values()) : 1.0;
  const double largest_grad = 2 * largest_magnitude(grad_output);
  const double h = largest_grad * (normed ? largest_magnitude(weight) : 1.0) * largest_r;
  const double dim = static_cast<double>(head_dim), count = static_cast<double>(rows * heads);
  expect_close(run.grad_input.values(), gradient,
               {.stored_as = kDType<T>, .terms = 5 * head_dim / 2 + 12, .scale = h * dim});
  run.output.expect_guards_intact();
  run.grad_input.expect_guards_intact();
  if (!normed) return;
  const auto added =
      complex_step_gradient(weight, [&](const auto& moved) { return loss(fixed_input, moved); });
  for (std::size_t i = 0; i < added.size(); ++i) grad_weight[i] += added[i];
  expect_close(run.grad_weight.values(), grad_weight,
               {.terms = rows * heads + head_dim / 2 + 12,
                .scale = largest_magnitude(input) * largest_r * largest_grad * count});
  run.inverse_rms.expect_guards_intact();
  run.grad_weight.expect_guards_intact();
}

TYPED_TEST(HeadNormRopeTest, ForwardAndBackwardMatchTheFormula) {
  for (const bool normed : {true, false}) {
    expect_formula<TypeParam>(1, 1, 2, normed);
    expect_formula<TypeParam>(5, 3, 16, normed);
    expect_formula<TypeParam>(40, 2, 6, normed);
    expect_formula<TypeParam>(2, 1, 80, normed);
  }
}

TYPED_TEST(HeadNormRopeTest, InPlaceAndWithMoreThreadsTheBitsAreTheSame) {
  Operands<TypeParam> apart(301, 4, 64), together(301, 4, 64);
  apart.forward(apart.output, 1);
  apart.backward(apart.grad_input, 1);
  Operands<TypeParam> in_place(301, 4, 64);
  in_place.forward(in_place.input, 2);
  EXPECT_TRUE(apart.output.bits() == in_place.input.bits());
  together.forward(together.output, 3);
  together.backward(together.grad_output, 2);
  EXPECT_TRUE(apart.grad_input.bits() == together.grad_output.bits());
  EXPECT_TRUE(apart.grad_weight.bits() == together.grad_weight.bits());
  EXPECT_TRUE(apart.inverse_rms.bits() == together.inverse_rms.bits());
}

}  // namespace
}  // namespace draftsmith::test
