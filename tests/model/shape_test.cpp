#include "model/shape.h"

#include <algorithm>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace draftsmith {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

// The published rule, including the rows where rounding half up would differ (30, 34, 62, 22, 94 layers).
TEST(DefaultTaps, FollowThePublishedRule) {
  EXPECT_THAT(default_taps(24, 5), ElementsAre(1, 6, 11, 16, 21));
  EXPECT_THAT(default_taps(28, 5), ElementsAre(1, 7, 13, 19, 25));
  EXPECT_THAT(default_taps(30, 5), ElementsAre(1, 8, 14, 20, 27));
  EXPECT_THAT(default_taps(32, 5), ElementsAre(1, 8, 15, 22, 29));
  EXPECT_THAT(default_taps(34, 5), ElementsAre(1, 8, 16, 24, 31));
  EXPECT_THAT(default_taps(36, 5), ElementsAre(1, 9, 17, 25, 33));
  EXPECT_THAT(default_taps(40, 5), ElementsAre(1, 10, 19, 28, 37));
  EXPECT_THAT(default_taps(48, 5), ElementsAre(1, 12, 23, 34, 45));
  EXPECT_THAT(default_taps(62, 5), ElementsAre(1, 16, 30, 44, 59));
  EXPECT_THAT(default_taps(64, 5), ElementsAre(1, 16, 31, 46, 61));
  EXPECT_THAT(default_taps(22, 5), ElementsAre(1, 6, 10, 14, 19));
  EXPECT_THAT(default_taps(94, 5), ElementsAre(1, 24, 46, 68, 91));
  EXPECT_THAT(default_taps(36, 8), ElementsAre(1, 6, 10, 15, 19, 24, 28, 33));
  EXPECT_THAT(default_taps(48, 8), ElementsAre(1, 7, 14, 20, 26, 32, 39, 45));
  EXPECT_THAT(default_taps(36, 1), ElementsAre(18));
}

// Each layer once, and never the last.
TEST(DefaultTaps, OfASmallTargetAreDistinct) {
  EXPECT_THAT(default_taps(6, 3), ElementsAre(1, 2, 3));  // the rule as it is
  EXPECT_THAT(default_taps(6, 4), ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(default_taps(6, 5), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(default_taps(4, 2), ElementsAre(0, 2));
  EXPECT_THAT(default_taps(4, 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(default_taps(2, 1), ElementsAre(0));
  for (std::int64_t layers = 2; layers <= 40; ++layers) {
    for (std::int64_t count = 1; count < layers; ++count) {
      const std::vector<std::int64_t> taps = default_taps(layers, count);
      ASSERT_EQ(std::ssize(taps), count) << layers;
      EXPECT_GE(taps.front(), 0);
      EXPECT_LE(taps.back(), layers - 2) << layers << " layers, " << count << " taps";
      EXPECT_EQ(std::adjacent_find(taps.begin(), taps.end(), std::greater_equal<>()), taps.end())
          << layers << " layers, " << count << " taps";
    }
  }
}

TEST(DefaultTaps, OfTooFewLayersAreRefusedWithThoseToName) {
  EXPECT_THAT([] { default_taps(4, 5); }, ThrowsMessage<Error>(HasSubstr("set drafter.taps to [0, 1, 2]")));
  EXPECT_THAT([] { default_taps(1, 1); }, ThrowsMessage<Error>(HasSubstr("the target has 1 layer")));
}

DrafterShape valid() {
  return {.layers = 2,
          .width = 32,
          .intermediate = 64,
          .query_heads = 4,
          .kv_heads = 2,
          .head_dim = 8,
          .vocabulary = 100,
          .max_positions = 64,
          .target_layers = 6,
          .block_size = 8,
          .taps = {1, 3},
          .mask_token_id = 99,
          .layer_kinds = {LayerKind::full, LayerKind::full}};
}

void expect_refused(const DrafterShape& shape, const std::string& message) {
  EXPECT_THAT([&] { check_drafter_shape(shape); }, ThrowsMessage<Error>(HasSubstr(message)));
}

TEST(CheckDrafterShape, ATargetOfOneLayerHasNothingToTap) {
  DrafterShape shape = valid();
  shape.target_layers = 1;
  shape.taps = {0};
  expect_refused(shape, "the target has 1 layer, and its last one cannot be tapped");
}

TEST(CheckDrafterShape, AcceptsAValidOne) { EXPECT_NO_THROW(check_drafter_shape(valid())); }

TEST(CheckDrafterShape, RefusesTheLastLayerAsATap) {
  DrafterShape shape = valid();
  shape.taps = {1, 5};
  expect_refused(shape, "strictly increasing layers within 0..4");
}

TEST(CheckDrafterShape, RefusesTapsThatRepeat) {
  DrafterShape shape = valid();
  shape.taps = {1, 1};
  expect_refused(shape, "Set drafter.taps explicitly");
}

TEST(CheckDrafterShape, RefusesWhatCannotBeTrained) {
  DrafterShape shape = valid();
  shape.block_size = 1;
  expect_refused(shape, "block_size is 1; expected 2..32");
  shape = valid();
  shape.kv_heads = 3;
  expect_refused(shape, "must be a multiple of drafter.kv_heads 3");
  shape = valid();
  shape.mask_token_id = 100;
  expect_refused(shape, "expected 0..99");
  shape = valid();
  shape.layer_kinds = {LayerKind::sliding, LayerKind::full};
  shape.sliding_window = 7;
  expect_refused(shape, "sliding_window 7 is smaller than the block of 8");
  shape = valid();
  shape.rope.scaling = RopeScaling::llama3;
  expect_refused(shape, "rope scaling llama3 cannot be served with a drafter");
  shape = valid();
  shape.layer_kinds.pop_back();
  expect_refused(shape, "expected one for each of the 2 layers");
}

}  // namespace
}  // namespace draftsmith
