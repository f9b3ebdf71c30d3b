// Copies, fills and events on the device under test.
#include "device/stream.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

#include "device/memory.h"
#include "support/devices.h"

namespace draftsmith::test {
namespace {

TEST(Stream, CopiesThereAndBackInOrder) {
  const Device device = test_device();
  const Stream stream{.device = &device};
  std::vector<std::uint8_t> bytes(100'003);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 7 + i / 256);
  const auto size = static_cast<std::int64_t>(bytes.size());
  const Buffer there = Buffer::on_device(device, size);
  const Buffer back = Buffer::pinned(size);
  copy_bytes(stream, there.data(), bytes.data(), size);
  fill_bytes(stream, there.data() + 10, 0xab, 20);
  copy_bytes(stream, back.data(), there.data(), size);
  synchronize(stream);
  for (std::int64_t i = 0; i < size; ++i) {
    const auto expected = i >= 10 && i < 30 ? std::uint8_t{0xab} : bytes[static_cast<std::size_t>(i)];
    ASSERT_EQ(static_cast<std::uint8_t>(back.data()[i]), expected) << i;
  }
}

// Enough of it that all cores clear it.
TEST(Stream, MuchPinnedMemoryStartsClearAndCopies) {
  const Device device = test_device();
  const Stream stream{.device = &device};
  const std::int64_t size = (std::int64_t{256} << 20) + 100;
  const Buffer there = Buffer::on_device(device, size);
  const std::int64_t pinned_before = pinned_bytes();
  {
    const Buffer back = Buffer::pinned(size);
    EXPECT_GE(pinned_bytes() - pinned_before, size);
    const auto set = [&] {
      return std::count_if(back.data(), back.data() + size,
                           [](std::byte value) { return value != std::byte{0}; });
    };
    EXPECT_EQ(set(), 0);
    fill_bytes(stream, there.data(), 0xab, size);
    copy_bytes(stream, back.data(), there.data(), size);
    synchronize(stream);
    EXPECT_EQ(set(), size);
  }
  EXPECT_EQ(pinned_bytes(), pinned_before);
}

TEST(Stream, MemoryOfADeviceStartsClear) {
  const Device device = test_device();
  const Stream stream{.device = &device};
  const Buffer there = Buffer::on_device(device, 1000);
  std::vector<std::uint8_t> bytes(1000, 1);
  copy_bytes(stream, bytes.data(), there.data(), 1000);
  synchronize(stream);
  EXPECT_EQ(bytes, std::vector<std::uint8_t>(1000, 0));
}

TEST(Event, OrdersStreamsAndTellsTheTimeBetween) {
  const Device device = test_device();
  const Stream launches{.device = &device};
  const OwnStream own(device);
  const std::int64_t size = std::int64_t{1} << 24;
  const Buffer there = Buffer::on_device(device, size), back = Buffer::pinned(size);
  Event begin(device), filled(device), copied(device);
  for (const std::uint8_t value : {std::uint8_t{3}, std::uint8_t{9}}) {
    begin.record(launches);
    fill_bytes(launches, there.data(), value, size);
    filled.record(launches);
    filled.wait(own.view());
    copy_bytes(own.view(), back.data(), there.data(), size);
    copied.record(own.view());
    copied.wait(launches);  // the next fill may not overtake the copy
    copied.synchronize();
    EXPECT_TRUE(filled.reached());
    EXPECT_GE(Event::elapsed_ms(begin, copied), 0.0);
    for (std::int64_t i = 0; i < size; i += 4095) ASSERT_EQ(static_cast<std::uint8_t>(back.data()[i]), value);
  }
}

}  // namespace
}  // namespace draftsmith::test
