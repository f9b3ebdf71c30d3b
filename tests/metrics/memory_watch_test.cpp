#include "metrics/memory_watch.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "device/memory.h"

namespace draftsmith {
namespace {

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;

std::vector<char> touched(std::int64_t bytes) {
  return std::vector<char>(static_cast<std::size_t>(bytes), 1);
}

TEST(MemoryWatch, SeesAnonymousMemoryThatIsTakenAfterTheRunHasSettled) {
  MemoryWatch watch({});
  watch.sample(0);
  const std::vector<char> early = touched(64 * kMebibyte);  // while it settles
  watch.sample(19);
  watch.sample(20);
  EXPECT_TRUE(watch.report().steady());
  const std::vector<char> late = touched(64 * kMebibyte);
  watch.sample(21);
  EXPECT_FALSE(watch.report().steady());
  EXPECT_GE(watch.report().anonymous.moved(), 60 * kMebibyte);
  EXPECT_EQ(watch.report().samples, 4);
}

TEST(MemoryWatch, SeesPinnedMemoryComeAndGo) {
  MemoryWatch watch({});
  watch.sample(0);
  {
    const Buffer buffer = Buffer::pinned(1000);
    watch.sample(0);
  }
  watch.sample(0);
  EXPECT_EQ(watch.report().pinned.moved(), 1024);
  EXPECT_FALSE(watch.report().steady());
}

TEST(MemoryWatch, AMovedBufferIsCountedOnce) {
  const std::int64_t before = pinned_bytes();
  Buffer buffer = Buffer::pinned(256);
  Buffer moved = std::move(buffer);
  EXPECT_EQ(pinned_bytes() - before, 256);
  moved = Buffer();
  EXPECT_EQ(pinned_bytes(), before);
}

TEST(MemoryWatch, CpuDevicesHaveNoMemoryOfTheirOwn) {
  MemoryWatch watch({Device{.name = {DeviceKind::cpu, 0}}});
  watch.sample(0);
  EXPECT_TRUE(watch.report().gpus.empty());
  EXPECT_GT(watch.report().files.least, 0);
}

}  // namespace
}  // namespace draftsmith
