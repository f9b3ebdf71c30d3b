// A device: where one thread's arena lives and its kernels run. A logical CPU device is an arena and a thread
// of its own; its launches run at once in the calling thread, split over `threads` workers of that thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace draftsmith {

enum class DeviceKind { cpu, cuda };

struct DeviceName {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;

  // "cpu:0", "cuda:3". Throws Error for anything else.
  static DeviceName parse(std::string_view text);
  std::string text() const;
  bool operator==(const DeviceName&) const = default;
};

struct Device {
  DeviceName name;
  // About as many scalar operations as a launch must have before it is split: some ten microseconds, what waking the
  // workers takes. Smaller launches, like most of decoding a small model, run in the calling thread.
  std::int64_t work_worth_sharing = std::int64_t{1} << 20;
  int threads = 1;  // CPU workers a launch is split over; part of what fixes the bits of a run
};

// Checks that the device can be used here and opens it. Throws Error with advice when it cannot (cuda without
// a build for it). threads: 0 takes the machine's cores divided by `sharers`, at least 1.
Device open_device(DeviceName name, int threads, int sharers);

// Makes `device` the one that this thread launches on: sets how many workers its launches are split over and
// starts them once, so that no thread is created later. Called first thing by a thread that owns a device.
void attach_thread(const Device& device);

// Where a launch goes. Copied freely; must not outlive its device.
struct Stream {
  const Device* device = nullptr;
};

}  // namespace draftsmith
