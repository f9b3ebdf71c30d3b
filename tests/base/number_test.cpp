#include "base/number.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace draftsmith {
namespace {

TEST(Bf16, EveryValueSurvivesTheRoundTrip) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const bf16 value = bf16::from_bits(static_cast<std::uint16_t>(bits));
    const float wide = value;
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(bf16(wide))));
    } else {
      ASSERT_EQ(bf16(wide).bits, bits);
    }
  }
}

TEST(Bf16, RoundsToNearestAndHalvesToEven) {
  EXPECT_EQ(static_cast<float>(bf16(1.0f + 0x1p-8f)), 1.0f);                         // half way: down to even
  EXPECT_EQ(static_cast<float>(bf16(1.0f + 3 * 0x1p-8f)), 1.0f + 4 * 0x1p-8f);       // half way: up to even
  EXPECT_EQ(static_cast<float>(bf16(1.0f + 0x1p-8f + 0x1p-20f)), 1.0f + 0x1p-7f);    // above half
  EXPECT_EQ(static_cast<float>(bf16(std::numeric_limits<float>::max())), INFINITY);  // beyond the largest
  EXPECT_EQ(static_cast<float>(bf16(-INFINITY)), -INFINITY);
}

TEST(F16, KnownValues) {
  EXPECT_EQ(float_from_f16(0x3c00), 1.0f);
  EXPECT_EQ(float_from_f16(0xc000), -2.0f);
  EXPECT_EQ(float_from_f16(0x7bff), 65504.0f);
  EXPECT_EQ(float_from_f16(0x0001), 0x1p-24f);
  EXPECT_EQ(float_from_f16(0x8001), -0x1p-24f);
  EXPECT_EQ(float_from_f16(0x7c00), INFINITY);
  EXPECT_TRUE(std::isnan(float_from_f16(0x7e01)));
}

}  // namespace
}  // namespace draftsmith
