#include "train/run_config.h"

#include <gtest/gtest.h>

namespace draftsmith {
namespace {

TEST(RunConfig, GammaFollowsThePublishedBlockSizes) {
  EXPECT_EQ(default_gamma(16), 7.0);
  EXPECT_EQ(default_gamma(10), 5.0);
  EXPECT_EQ(default_gamma(8), 4.0);
}

TEST(RunConfig, GammaOfOtherBlockSizesIsHalfTheSupervisedOffsetsRoundedHalfUp) {
  EXPECT_EQ(default_gamma(2), 1.0);   // 0.5
  EXPECT_EQ(default_gamma(7), 3.0);   // 3
  EXPECT_EQ(default_gamma(12), 6.0);  // 5.5
  EXPECT_EQ(default_gamma(32), 16.0);
}

TEST(RunConfig, DerivedDefaultsFillOnlyWhatTheLossReads) {
  RunConfig config;
  fill_derived_defaults(config);
  EXPECT_EQ(config.train.steps, 400);
  EXPECT_EQ(config.train.loss.gamma, 4.0);
  EXPECT_FALSE(config.train.loss.alpha);

  RunConfig dpace;
  dpace.train.loss.type = LossKind::dpace;
  fill_derived_defaults(dpace);
  EXPECT_EQ(dpace.train.loss.alpha, 0.5);
  EXPECT_FALSE(dpace.train.loss.gamma);
}

TEST(RunConfig, DerivedDefaultsKeepWhatWasSaid) {
  RunConfig config;
  config.train.epochs = 2;
  config.train.loss.gamma = 0.0;
  fill_derived_defaults(config);
  EXPECT_FALSE(config.train.steps);
  EXPECT_EQ(config.train.loss.gamma, 0.0);
}

}  // namespace
}  // namespace draftsmith
