#include "device/device.h"

#include <atomic>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "device/cpu/parallel.h"
#include "device/memory.h"
#include "device/seal.h"

namespace draftsmith {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(DeviceName, ReadsKindAndIndex) {
  EXPECT_EQ(DeviceName::parse("cpu:3"), (DeviceName{DeviceKind::cpu, 3}));
  EXPECT_EQ(DeviceName::parse("cuda:0"), (DeviceName{DeviceKind::cuda, 0}));
  EXPECT_EQ(DeviceName::parse("cpu:12").text(), "cpu:12");
}

TEST(DeviceName, RefusesAnythingElse) {
  for (const char* text : {"", "cpu", "cpu:", "cpu:-1", "cpu:1x", "gpu:0", "cpu:99999999999", "CPU:0",
                           "cpu:00", "cpu:01", "cuda:-0"}) {
    EXPECT_THAT([&] { DeviceName::parse(text); },
                ThrowsMessage<Error>(HasSubstr("a device is written cpu:0")))
        << text;
  }
}

TEST(OpenDevice, SharesTheCoresOut) {
  EXPECT_GE(open_device({DeviceKind::cpu, 0}, 0, 1000).threads, 1);
  EXPECT_EQ(open_device({DeviceKind::cpu, 0}, 3, 1).threads, 3);
}

TEST(ParallelRanges, CoverEveryIndexOnceWhateverTheThreads) {
  for (const int threads : {1, 2, 3, 5}) {
    const Device device{.name = {}, .threads = threads};
    attach_thread(device);
    for (const std::int64_t count : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> visits(count);
      parallel_ranges(Stream{&device}, count, 1 << 20, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) ++visits[i];
      });
      for (const auto& visit : visits) EXPECT_EQ(visit, 1);
    }
  }
}

TEST(Buffer, IsAlignedAndClear) {
  const Device device{};
  const Buffer buffer = Buffer::on_device(device, 1000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % kMemoryAlignment, 0u);
  for (std::int64_t i = 0; i < buffer.bytes(); ++i) EXPECT_EQ(buffer.data()[i], std::byte{0});
}

TEST(Buffer, SaysWhatCouldNotBeAllocated) {
  const Device device{};
  EXPECT_THAT(
      [&] { Buffer::on_device(device, std::int64_t{1} << 60); },
      ThrowsMessage<Error>(testing::AllOf(HasSubstr("cpu:0"), HasSubstr("ulimit -v"),
                                          HasSubstr("draftsmith plan"), HasSubstr("--max-new-tokens"))));
}

TEST(AvailableBytes, AreTheMachinesUnlessTheDeviceIsLimited) {
  Device device{};
  EXPECT_GT(available_host_bytes(), std::int64_t{1} << 20);
  EXPECT_GT(available_bytes(device), std::int64_t{1} << 20);
  device.memory_limit_bytes = 12345;
  EXPECT_EQ(available_bytes(device), 12345);
}

TEST(SealDeathTest, AnAllocationAfterwardsAborts) {
  const Device device{};
  EXPECT_DEATH(
      {
        seal();
        Buffer::on_device(device, 1);
      },
      "set-up ended with seal");
}

TEST(Seal, CountsViolationsWhereTheyDoNotAbort) {
  const Device device{};
  set_seal_violation(SealViolation::count);
  const std::int64_t before = seal_report().before[static_cast<int>(SetUp::arena)];
  Buffer::on_device(device, 1);
  seal();
  EXPECT_EQ(seal_report().before[static_cast<int>(SetUp::arena)], before + 1);
  EXPECT_EQ(seal_report().after[static_cast<int>(SetUp::arena)], 0);
  Buffer::on_device(device, 1);
  EXPECT_EQ(seal_report().after[static_cast<int>(SetUp::arena)], 1);
  unseal();
  set_seal_violation(SealViolation::abort);
}

}  // namespace
}  // namespace draftsmith
