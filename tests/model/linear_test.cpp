#include "model/linear.h"

#include <gtest/gtest.h>

#include "kernels/tables.h"
#include "tensor/carver.h"

namespace draftsmith {
namespace {

// A bias's gradient needs scratch on GPUs, and while it is measured no view has memory yet.
TEST(Linear, TheGradientOfABiasIsMeasuredWithoutMemory) {
  static std::int64_t asked = 0;
  asked = 0;
  const Device device = open_device(DeviceName::parse("cpu:0"), 1, 1);
  Kernels<float> kernels = kernels_of<float>(device);
  kernels.column_sum_scratch = [](const Device&, const ColumnSum<float>& arguments) -> std::int64_t {
    ++asked;
    return 4 * arguments.input.columns;
  };
  Launcher<float> launch(device, kernels);
  ProductChoices choices;
  Carver views;
  const auto gradient = views.matrix<float>(6, 100);
  const auto bias = views.vector<float>(100);
  launch.measure(Preparation::sizes, choices, [&] { add_bias_gradient<float>(launch, gradient, bias); });
  EXPECT_EQ(asked, 1);
  EXPECT_GE(launch.library().scratch_bytes(), 400);
  launch.measure(Preparation::sizes, choices, [&] { add_bias_gradient<float>(launch, gradient, {}); });
  EXPECT_EQ(asked, 1) << "a layer without a bias";
}

}  // namespace
}  // namespace draftsmith
