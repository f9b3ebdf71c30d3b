#include "base/random.h"

#include <cmath>

#include <gtest/gtest.h>

namespace draftsmith {
namespace {

// Known answers published with the reference implementation (Random123, kat_vectors).
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (PhiloxBlock{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (PhiloxBlock{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  EXPECT_EQ(philox({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, {0xa4093822u, 0x299f31d0u}),
            (PhiloxBlock{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
}

TEST(Random, StreamsAndNamesDoNotShareNumbers) {
  const Random a(7, RandomStream::anchors, 1, 2), b(7, RandomStream::anchors, 2, 1),
      c(7, RandomStream::noise, 1, 2);
  EXPECT_NE(a.bits(0), b.bits(0));
  EXPECT_NE(a.bits(0), c.bits(0));
  EXPECT_EQ(a.bits(5), Random(7, RandomStream::anchors, 1, 2).bits(5));
}

TEST(Random, NormalHasMeanZeroAndVarianceOne) {
  const Random random(3, RandomStream::initial_weights);
  const int count = 200000;
  double sum = 0, squares = 0;
  for (int i = 0; i < count; ++i) {
    const double value = random.normal(i);
    sum += value;
    squares += value * value;
  }
  // Five standard errors of the mean (1 / sqrt n) and of the variance (sqrt(2 / n)).
  EXPECT_NEAR(sum / count, 0.0, 5.0 / std::sqrt(count));
  EXPECT_NEAR(squares / count, 1.0, 5.0 * std::sqrt(2.0 / count));
}

}  // namespace
}  // namespace draftsmith
