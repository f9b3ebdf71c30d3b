#include "train/idle.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "kernels/tables.h"

namespace draftsmith {
namespace {

// On a CPU device launches are over when they return, so a wait is idle from its begin to its end.
TEST(IdleSpans, AddUpTheWaitsSinceTheyWereLastAskedFor) {
  const Device device = open_device(DeviceName::parse("cpu:0"), 1, 1);
  const Stream stream{.device = &device};
  IdleSpans idle(device, 2);
  const auto nap = [] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return 7;
  };
  EXPECT_EQ(idle.take_s(), 0);
  EXPECT_EQ(idle.around(stream, nap), 7);
  EXPECT_EQ(idle.around(stream, nap), 7);
  EXPECT_GE(idle.take_s(), 0.02);
  EXPECT_EQ(idle.take_s(), 0);
  idle.around(stream, nap);
  EXPECT_LT(idle.take_s(), 5) << "of this wait alone";
}

}  // namespace
}  // namespace draftsmith
