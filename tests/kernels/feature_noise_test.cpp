#include "kernels/feature_noise.h"

#include <cmath>

#include <gtest/gtest.h>

#include "support/devices.h"
#include "support/guard.h"
#include "support/run_on.h"

namespace draftsmith::test {
namespace {

Guarded<float> noise(NoiseKind kind, std::int64_t index, int threads = 1, std::int64_t rows = 200) {
  Guarded<float> features(rows, 50, 3);
  for (std::int64_t r = 0; r < rows; ++r) std::fill_n(features.matrix().row(r), 50, 10.0f);
  const Device device = test_device(threads);
  run_on<float>(device,
                AddFeatureNoise<float>{
                    .kind = kind, .scale = 0.5f, .seed = 4, .index = index, .features = features.matrix()});
  features.expect_guards_intact();
  return features;
}

TEST(FeatureNoise, HasTheMomentsOfItsKind) {
  for (const auto& [kind, deviation] :
       {std::pair{NoiseKind::uniform, 0.5 / std::sqrt(3.0)}, {NoiseKind::gaussian, 0.5}}) {
    auto features = noise(kind, 1);
    double sum = 0, squares = 0;
    const std::vector<double> values = features.values();
    for (const double value : values) {
      sum += value - 10;
      squares += (value - 10) * (value - 10);
      if (kind == NoiseKind::uniform) {
        EXPECT_LE(std::abs(value - 10), 0.5 + 1e-6);
      }
    }
    const double count = static_cast<double>(values.size());
    // Five standard errors of a mean and of a deviation.
    EXPECT_NEAR(sum / count, 0, 5 * deviation / std::sqrt(count));
    EXPECT_NEAR(std::sqrt(squares / count), deviation, 5 * deviation / std::sqrt(2 * count));
  }
}

TEST(FeatureNoise, IsAFunctionOfSeedMicroBatchAndPlaceAlone) {
  EXPECT_EQ(noise(NoiseKind::gaussian, 3, 1).bits(), noise(NoiseKind::gaussian, 3, 2).bits());
  EXPECT_NE(noise(NoiseKind::gaussian, 3).bits(), noise(NoiseKind::gaussian, 4).bits());
}

TEST(FeatureNoise, NoneChangesNothing) {
  for (const double value : noise(NoiseKind::none, 3).values()) EXPECT_EQ(value, 10);
}

}  // namespace
}  // namespace draftsmith::test
