#include "data/held_folder.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace draftsmith {
namespace {

namespace fs = std::filesystem;

TEST(HeldFolder, KnowsWhereItIsAndWhereItWasMoved) {
  const TemporaryFolder place;
  const fs::path path = place.path() / "run", moved = place.path() / "moved";
  fs::create_directory(path);
  const HeldFolder held(path);
  EXPECT_EQ(held.place(), path);
  fs::rename(path, moved);
  EXPECT_EQ(held.place(), fs::canonical(moved));
  fs::create_directory(path);  // another folder of its name
  EXPECT_EQ(held.place(), fs::canonical(moved));
  fs::remove(path);
  fs::rename(moved, path);
  EXPECT_EQ(held.place(), path);
}

TEST(HeldFolder, KnowsThatItWasRemoved) {
  const TemporaryFolder place;
  const fs::path path = place.path() / "run";
  fs::create_directory(path);
  const HeldFolder held(path);
  fs::remove(path);
  EXPECT_FALSE(held.place().has_value());
  fs::create_directory(path);
  EXPECT_FALSE(held.place().has_value());
}

TEST(HeldFolder, NeedsAFolder) {
  expect_error([] { HeldFolder("/nonexistent-folder"); }, {"/nonexistent-folder", "cannot open"});
}

}  // namespace
}  // namespace draftsmith
