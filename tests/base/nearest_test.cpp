#include "base/nearest.h"

#include <gtest/gtest.h>

namespace draftsmith {
namespace {

TEST(Nearest, DistanceCountsSingleCharacters) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("steps", "step"), 1u);
}

TEST(Nearest, NamesComeNearestFirstAndTiesKeepTheirOrder) {
  using Names = std::vector<std::string>;
  const Names known{"gamma", "steps", "step", "stops"};
  EXPECT_EQ(nearest_names("stepz", known, 3), (Names{"steps", "step", "stops"}));
  EXPECT_EQ(nearest_names("x", known, 9).size(), known.size());
  EXPECT_TRUE(nearest_names("x", {}, 3).empty());
}

TEST(Nearest, JoinSeparatesOnlyBetween) {
  EXPECT_EQ(join({}, ", "), "");
  EXPECT_EQ(join({"a"}, ", "), "a");
  EXPECT_EQ(join({"a", "a"}, ", "), "a, a");
}

}  // namespace
}  // namespace draftsmith
