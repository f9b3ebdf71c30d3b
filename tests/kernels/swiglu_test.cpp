#include "kernels/swiglu.h"

#include <gtest/gtest.h>

#include "reference/swiglu.h"
#include "support/budget.h"
#include "support/complex_step.h"
#include "support/devices.h"
#include "support/guard.h"
#include "support/kernel_types.h"
#include "support/run_on.h"

namespace draftsmith::test {
namespace {

template <typename T>
class SwigluTest : public testing::Test {};
TYPED_TEST_SUITE(SwigluTest, StorageTypes, StorageName);

template <typename T>
struct Operands {
  Guarded<T> gate_up, output, grad_output, grad_gate_up;

  Operands(std::int64_t rows, std::int64_t width)
      : gate_up(rows, 2 * width, 3),
        output(rows, width, 1, 1),
        grad_output(rows, width, 2),
        grad_gate_up(rows, 2 * width, 5, 2) {
    gate_up.fill_normal(1, 3);
    grad_output.fill_normal(2);
  }

  void forward(int threads = 1) {
    const Device device = test_device(threads);
    run_on<T>(device, SwigluForward<T>{.gate_up = gate_up.matrix(), .output = output.matrix()});
  }
  void backward(Guarded<T>& gradient, int threads = 1) {
    const Device device = test_device(threads);
    run_on<T>(device, SwigluBackward<T>{.gate_up = gate_up.matrix(),
                                        .grad_output = grad_output.matrix(),
                                        .grad_gate_up = gradient.matrix()});
  }
};

// About ten float operations on each entry; grad_gate's factor 1 + gate * (1 - s) may cancel, so its error is
// that of the larger part.
TYPED_TEST(SwigluTest, ForwardAndBackwardMatchTheFormula) {
  for (const auto& [rows, width] : {std::pair{1, 1}, {3, 17}, {4, 48}}) {
    Operands<TypeParam> run(rows, width);
    run.forward();
    run.backward(run.grad_gate_up);
    const std::vector<double> gate_up = run.gate_up.values(), grad_output = run.grad_output.values();
    const auto columns = static_cast<std::size_t>(width);
    expect_close(run.output.values(), swiglu_reference(gate_up, columns),
                 {.stored_as = kDType<TypeParam>, .terms = 10});
    const auto gradient = complex_step_gradient(
        gate_up, [&](const auto& moved) { return dot(grad_output, swiglu_reference(moved, columns)); });
    const double largest = largest_magnitude(gate_up);
    expect_close(run.grad_gate_up.values(), gradient,
                 {.stored_as = kDType<TypeParam>,
                  .terms = 10,
                  .scale = largest_magnitude(grad_output) * largest * (1 + largest)});
    run.output.expect_guards_intact();
    run.grad_gate_up.expect_guards_intact();
  }
}

TYPED_TEST(SwigluTest, ExtremeGatesGiveTheLimits) {
  Operands<TypeParam> run(1, 4);
  const float gates[] = {-200, 200, -1e30f, 1e30f};
  for (int c = 0; c < 4; ++c) {
    run.gate_up.matrix()(0, c) = static_cast<TypeParam>(gates[c]);
    run.gate_up.matrix()(0, c + 4) = static_cast<TypeParam>(1.0f);
  }
  run.forward();
  run.backward(run.grad_gate_up);
  EXPECT_EQ(static_cast<float>(run.output.matrix()(0, 0)), 0.0f);
  EXPECT_EQ(static_cast<float>(run.output.matrix()(0, 1)), 200.0f);
  EXPECT_EQ(static_cast<float>(run.output.matrix()(0, 2)), 0.0f);
  EXPECT_EQ(run.output.matrix()(0, 3), run.gate_up.matrix()(0, 3));
  for (const double value : run.grad_gate_up.values()) EXPECT_TRUE(std::isfinite(value));
}

TYPED_TEST(SwigluTest, TheGradientMayReplaceTheInputAndThreadsChangeNoBit) {
  Operands<TypeParam> apart(70, 1001), together(70, 1001);
  apart.forward(1);
  apart.backward(apart.grad_gate_up, 1);
  together.forward(3);
  together.backward(together.gate_up, 2);
  EXPECT_TRUE(apart.output.bits() == together.output.bits());
  EXPECT_TRUE(apart.grad_gate_up.bits() == together.gate_up.bits());
}

}  // namespace
}  // namespace draftsmith::test
