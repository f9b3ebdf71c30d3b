#include "train/drafter_rope.h"

#include <gtest/gtest.h>

#include "model/rope.h"
#include "support/expect_error.h"

namespace draftsmith {
namespace {

const RopeShape kTarget{
    .theta = 5e5, .scaling = RopeScaling::llama3, .factor = 8, .original_positions = 8192};

TEST(DrafterRope, TakesOverTheTargetsThetaButNotItsScaling) {
  EXPECT_EQ(resolve_rope({}, kTarget), (RopeShape{.theta = 5e5}));
  EXPECT_EQ(resolve_rope({.theta = 1e6}, kTarget), (RopeShape{.theta = 1e6}));
}

TEST(DrafterRope, ScalesAsItsOwnOptionsSay) {
  EXPECT_EQ(resolve_rope({.scaling = {.type = RopeScaling::linear, .factor = 2}}, kTarget),
            (RopeShape{.theta = 5e5, .scaling = RopeScaling::linear, .factor = 2}));
  RopeScalingConfig yarn{.type = RopeScaling::yarn, .factor = 4, .original_max_position_embeddings = 4096};
  RopeShape expected{.theta = 5e5,
                     .scaling = RopeScaling::yarn,
                     .factor = 4,
                     .original_positions = 4096,
                     .attention_factor = yarn_attention_factor(4)};
  EXPECT_EQ(resolve_rope({.scaling = yarn}, kTarget), expected);
  yarn.attention_factor = expected.attention_factor = 1.5;
  yarn.beta_fast = expected.beta_fast = 16;
  yarn.beta_slow = expected.beta_slow = 2;
  EXPECT_EQ(resolve_rope({.scaling = yarn}, kTarget), expected);
}

TEST(DrafterRope, AScalingThatLacksANumberIsRefused) {
  expect_error([] { resolve_rope({.scaling = {.type = RopeScaling::linear}}, kTarget); },
               {"'drafter.rope.scaling.factor' is missing"});
  expect_error([] { resolve_rope({.scaling = {.type = RopeScaling::yarn, .factor = 2}}, kTarget); },
               {"'drafter.rope.scaling.original_max_position_embeddings' is missing"});
}

}  // namespace
}  // namespace draftsmith
