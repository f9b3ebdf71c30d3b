#include "train/schedule.h"

#include <gtest/gtest.h>

namespace draftsmith {
namespace {

TEST(Schedule, WarmUpRisesInAStraightLineOverTheRoundedUpShareOfSteps) {
  const OptimizerConfig optimizer{.lr = 1, .warmup_ratio = 0.15};  // ceil(0.15 * 10) = 2 steps
  EXPECT_DOUBLE_EQ(learning_rate(optimizer, 1, 10), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(optimizer, 2, 10), 1.0);
  EXPECT_LT(learning_rate(optimizer, 3, 10), 1.0);
}

TEST(Schedule, CosineIsHalfWayInTheMiddleAndEndsAtTheLeastRate) {
  const OptimizerConfig optimizer{.lr = 2, .warmup_ratio = 0, .min_lr_ratio = 0.1};
  EXPECT_DOUBLE_EQ(learning_rate(optimizer, 50, 100), 2 * (0.1 + 0.9 * 0.5));
  EXPECT_DOUBLE_EQ(learning_rate(optimizer, 100, 100), 0.2);
}

TEST(Schedule, LinearFallsByEqualAmounts) {
  const OptimizerConfig optimizer{.lr = 1, .warmup_ratio = 0, .schedule = ScheduleType::linear};
  EXPECT_DOUBLE_EQ(learning_rate(optimizer, 1, 4), 0.75);
  EXPECT_DOUBLE_EQ(learning_rate(optimizer, 3, 4), 0.25);
  EXPECT_DOUBLE_EQ(learning_rate(optimizer, 4, 4), 0.0);
}

TEST(Schedule, ConstantStaysAfterWarmUp) {
  const OptimizerConfig optimizer{.lr = 3, .warmup_ratio = 0.5, .schedule = ScheduleType::constant};
  EXPECT_DOUBLE_EQ(learning_rate(optimizer, 1, 4), 1.5);
  EXPECT_DOUBLE_EQ(learning_rate(optimizer, 4, 4), 3.0);
}

TEST(Schedule, ARunOfOneStepHasARate) {
  EXPECT_DOUBLE_EQ(learning_rate(OptimizerConfig{.lr = 1}, 1, 1), 1.0);
}

}  // namespace
}  // namespace draftsmith
