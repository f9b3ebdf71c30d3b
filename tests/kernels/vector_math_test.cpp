// The vector helpers of the CPU kernels; compiled with the kernels' own options, as inline functions must be.
#include "kernels/cpu/vector_math.h"

#include <cmath>

#include <gtest/gtest.h>

namespace draftsmith::cpu {
namespace {

float exp_of(float x) { return exp(broadcast(x))[0]; }

TEST(VectorMathTest, ExpIsWithinTwoUnitsInTheLastPlaceOverItsRange) {
  double worst = 0;
  for (float x = -87.3f; x < 88.7f; x += 0.00037f) {
    const double exact = std::exp(static_cast<double>(x));
    const float nearest = static_cast<float>(exact);
    const double unit = static_cast<double>(std::nextafter(nearest, kInfinity)) - nearest;
    worst = std::max(worst, std::abs(exp_of(x) - exact) / unit);
  }
  EXPECT_LE(worst, 2.0);
}

TEST(VectorMathTest, ExpHasTheRightLimits) {
  EXPECT_EQ(exp_of(0.0f), 1.0f);
  EXPECT_EQ(exp_of(-0.0f), 1.0f);
  EXPECT_EQ(exp_of(-kInfinity), 0.0f);
  EXPECT_EQ(exp_of(-1e30f), 0.0f);
  EXPECT_EQ(exp_of(kInfinity), kInfinity);
  EXPECT_EQ(exp_of(1e30f), kInfinity);
  EXPECT_EQ(exp_of(89.0f), kInfinity);
  EXPECT_LT(exp_of(88.7f), kInfinity);
  EXPECT_TRUE(std::isnan(exp_of(std::nanf(""))));
  // Below the smallest normal number: at most one unit of the smallest subnormal off.
  for (float x = -104; x < -87; x += 0.01f) {
    EXPECT_NEAR(exp_of(x), std::exp(static_cast<double>(x)),
                0x1p-149 + 0x1p-22 * std::exp(static_cast<double>(x)));
  }
}

TEST(VectorMathTest, EveryBf16SurvivesWideningAndRoundingMatchesTheType) {
  for (std::uint32_t bits = 0; bits < 0x10000; bits += 1) {
    const bf16 value = bf16::from_bits(static_cast<std::uint16_t>(bits));
    const bf16 stored[kLanes] = {value};
    const Lanes wide = load(stored);
    if (!std::isnan(static_cast<float>(value))) {
      EXPECT_EQ(wide[0], static_cast<float>(value));
    }
    const float between = std::bit_cast<float>((bits << 16) | ((bits * 2654435761u) >> 16));
    bf16 rounded[kLanes];
    store(rounded, broadcast(between));
    ASSERT_EQ(rounded[5].bits, bf16(between).bits) << bits;
  }
}

TEST(VectorMathTest, PartsOfARowAreLoadedAndStoredAlone) {
  float row[21], copy[21];
  for (int i = 0; i < 21; ++i) row[i] = static_cast<float>(i + 1), copy[i] = -1;
  float sum = 0;
  int places = 0;
  for_lanes(0, 19, [&](auto place) {
    ++places;
    sum += sum_of(place.load(row));
    place.store(copy, place.load(row));
  });
  EXPECT_EQ(places, 2);
  EXPECT_EQ(sum, 19 * 20 / 2);
  EXPECT_EQ(copy[18], 19.0f);
  EXPECT_EQ(copy[19], -1.0f);
  EXPECT_EQ(max_of(load_some(row, 3, -kInfinity)), 3.0f);
}

}  // namespace
}  // namespace draftsmith::cpu
