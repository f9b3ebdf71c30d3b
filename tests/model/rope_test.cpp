#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

#include "model/target_shape.h"
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
  const Device device;
  fill_rope({&device}, rope, 128, table);
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

TEST(Rope, LinearStretchesEveryWave) {
  const auto before = inverse_frequencies({.theta = 1e4}, 64);
  const auto after = inverse_frequencies({.theta = 1e4, .scaling = RopeScaling::linear, .factor = 2.5}, 64);
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_DOUBLE_EQ(after[i], before[i] / 2.5);
}

RopeShape yarn() {
  return {.theta = 1e6, .scaling = RopeScaling::yarn, .factor = 4, .original_positions = 32768};
}

// dim(32) = 23.6 and dim(1) = 39.7 for heads of 128: pairs up to 23 are kept, those from 40 are stretched.
TEST(Rope, YarnKeepsFastPairsAndStretchesSlowOnes) {
  const auto before = inverse_frequencies({.theta = 1e6}, 128), after = inverse_frequencies(yarn(), 128);
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - 23) / (40.0 - 23), 0.0, 1.0);
    EXPECT_DOUBLE_EQ(after[i], before[i] / 4 * ramp + before[i] * (1 - ramp)) << i;
  }
}

TEST(Rope, YarnsRampFollowsItsBetasAndNeedNotBeTruncated) {
  const auto before = inverse_frequencies({.theta = 1e6}, 128);
  RopeShape rope = yarn();
  rope.truncate = false;
  rope.beta_fast = 16;
  rope.beta_slow = 2;
  const auto place = [](double turns) {
    return 128 * std::log(32768 / (turns * 2 * std::numbers::pi)) / (2 * std::log(1e6));
  };
  const auto after = inverse_frequencies(rope, 128);
  for (std::size_t i = 0; i < before.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - place(16)) / (place(2) - place(16)), 0.0, 1.0);
    EXPECT_NEAR(after[i], before[i] / 4 * ramp + before[i] * (1 - ramp), before[i] * 0x1p-48) << i;
  }
}

TEST(Rope, YarnWhoseRampHasNoLengthStepsOnce) {
  RopeShape rope = yarn();
  rope.original_positions = 6;  // both ends below pair 0
  for (const double frequency : inverse_frequencies(rope, 16)) EXPECT_TRUE(std::isfinite(frequency));
}

TEST(Rope, TheAttentionFactorIsImpliedStatedOrARatio) {
  RopeConfig file{
      .rope_type = "yarn", .rope_theta = 1e6, .factor = 40, .original_max_position_embeddings = 4096};
  EXPECT_DOUBLE_EQ(rope_shape(file).attention_factor, 0.1 * std::log(40.0) + 1);
  file.mscale = 0.707;
  EXPECT_DOUBLE_EQ(rope_shape(file).attention_factor, 0.1 * std::log(40.0) + 1);
  file.mscale_all_dim = 1.0;
  EXPECT_DOUBLE_EQ(rope_shape(file).attention_factor,
                   (0.1 * 0.707 * std::log(40.0) + 1) / (0.1 * std::log(40.0) + 1));
  file.attention_factor = 1.5;
  EXPECT_DOUBLE_EQ(rope_shape(file).attention_factor, 1.5);
  EXPECT_EQ(rope_shape({.rope_theta = 1e6}).attention_factor, 1);
}

TEST(Rope, TheAttentionFactorMultipliesTheTable) {
  RopeShape rope{.theta = 1e6};
  Carver measure;
  carve_rope(measure, 9, 16);
  const Arena arena(Device{}, measure.peak());
  Carver carver = arena.carver();
  const RopeStorage table = carve_rope(carver, 9, 16);
  rope.attention_factor = 1.25;
  const Device device;
  fill_rope({&device}, rope, 16, table);
  EXPECT_EQ(table.cosine(0, 3), 1.25f);
  EXPECT_EQ(table.sine(0, 3), 0.0f);
  EXPECT_EQ(table.sine(8, 0), static_cast<float>(1.25 * std::sin(8.0)));
}

}  // namespace
}  // namespace draftsmith
