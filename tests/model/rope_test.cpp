#include "model/rope.h"

#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

#include "tensor/arena.h"

namespace draftsmith {
namespace {

TEST(Rope, AnglesAreExactFarFromTheStart) {
  const RopeShape rope{.theta = 1e6};
  Carver measure;
  carve_rope(measure, 32001, 128);
  const Arena arena(Device{}, measure.peak());
  Carver carver = arena.carver();
  const RopeStorage table = carve_rope(carver, 32001, 128);
  fill_rope(rope, 128, table);
  for (const std::int64_t position : {0, 700, 4000, 32000}) {
    for (const std::int64_t i : {0, 1, 31, 63}) {
      const long double angle = position * std::pow(1e6L, -2.0L * i / 128);
      // One rounding to float, and the double angle's own error of about position * 2^-52.
      EXPECT_NEAR(table.cosine(position, i), static_cast<double>(std::cos(angle)),
                  0x1p-24 + position * 0x1p-51);
      EXPECT_NEAR(table.sine(position, i), static_cast<double>(std::sin(angle)),
                  0x1p-24 + position * 0x1p-51);
    }
  }
}

TEST(Rope, Llama3KeepsShortWavesAndStretchesLongOnes) {
  const RopeShape plain{.theta = 5e5};
  RopeShape scaled = plain;
  scaled.scaling = RopeScaling::llama3;
  scaled.factor = 8;
  scaled.original_positions = 8192;
  const auto before = inverse_frequencies(plain, 128), after = inverse_frequencies(scaled, 128);
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double wavelength = 2 * std::numbers::pi / before[i];
    if (wavelength < 8192.0 / 4) {
      EXPECT_EQ(after[i], before[i]);
    } else if (wavelength > 8192.0) {
      EXPECT_DOUBLE_EQ(after[i], before[i] / 8);
    } else {
      EXPECT_LT(after[i], before[i]);
      EXPECT_GT(after[i], before[i] / 8);
    }
  }
}

}  // namespace
}  // namespace draftsmith
