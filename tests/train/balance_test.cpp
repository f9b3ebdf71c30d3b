#include "train/balance.h"

#include <gtest/gtest.h>

namespace draftsmith {
namespace {

TEST(Balance, TheSlowerRoleDecidesAndBothRolesAddUp) {
  const RoleWork work{.target_s = 6, .drafter_s = 10};
  EXPECT_EQ(split_s(work, {.targets = 3, .drafters = 5}), 2);
  EXPECT_EQ(split_s(work, {.targets = 5, .drafters = 3}), 10.0 / 3);
  EXPECT_EQ(split_s(work, {.targets = 8, .drafters = 8, .both_roles = true}), 2);
}

TEST(Balance, TheBestSplitIsFoundByItsTime) {
  EXPECT_EQ(best_split({.target_s = 6, .drafter_s = 10}, 8), (DeviceSplit{.targets = 3, .drafters = 5}));
  EXPECT_EQ(best_split({.target_s = 10, .drafter_s = 1}, 8), (DeviceSplit{8, 8, true}));
  EXPECT_EQ(best_split({.target_s = 1, .drafter_s = 1}, 1), (DeviceSplit{1, 1, true}));
  EXPECT_EQ(best_split({.target_s = 1, .drafter_s = 1}, 2), (DeviceSplit{.targets = 1, .drafters = 1}));
}

TEST(Balance, SplitsAreNamed) {
  EXPECT_EQ(split_text({.targets = 1, .drafters = 2}), "1 target + 2 drafters");
  EXPECT_EQ(split_text({.targets = 2, .drafters = 2, .both_roles = true}), "both roles on each of 2 devices");
}

}  // namespace
}  // namespace draftsmith
