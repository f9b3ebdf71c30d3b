#include "fabric/barrier.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

namespace draftsmith {
namespace {

using std::chrono::milliseconds;

TEST(Barrier, TheLastPartyCanLookAfterTheOthersUntilTheyHaveArrived) {
  Barrier barrier(2);
  EXPECT_FALSE(barrier.others_arrive_within(milliseconds(1)));
  std::thread other([&] { EXPECT_TRUE(barrier.arrive()); });
  EXPECT_TRUE(barrier.others_arrive_within(milliseconds(10000)));
  EXPECT_TRUE(barrier.arrive());
  other.join();
  EXPECT_FALSE(barrier.others_arrive_within(milliseconds(1)));  // of the next meeting
}

TEST(Barrier, CancelEndsLookingAfterTheOthers) {
  Barrier barrier(2);
  std::thread cancels([&] { barrier.cancel(); });
  EXPECT_TRUE(barrier.others_arrive_within(milliseconds(10000)));
  EXPECT_FALSE(barrier.arrive());
  cancels.join();
}

}  // namespace
}  // namespace draftsmith
