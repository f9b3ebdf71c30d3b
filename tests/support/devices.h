// The device that tests run on: cpu:0, or what the program's --device=cuda:0 names. Operands lie in
// memory that both the test and that device read and write.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

#include "device/device.h"

namespace draftsmith::test {

// What the command line asked for.
struct DeviceOptions {
  Device device;         // the device under test
  bool aligned = false;  // operands begin on 256 bytes and their rows on 16, as in the product
};
DeviceOptions& device_options();

// A logical CPU device with that many workers, which share even the smallest launch.
inline Device cpu_device(int threads = 1) {
  return {.name = {}, .work_worth_sharing = 0, .threads = threads};
}

// The device under test; a CPU device has that many workers, which share even the smallest launch.
inline Device test_device(int threads = 1) {
  Device device = device_options().device;
  device.threads = threads;
  device.work_worth_sharing = 0;
  return device;
}

// Memory that the test and the device under test share: plain, or pinned for a GPU, which then reads it over
// the bus.
void* allocate_visible(std::size_t bytes);
void free_visible(void* memory);

template <typename T>
struct VisibleAllocator {
  using value_type = T;
  VisibleAllocator() = default;
  template <typename Other>
  VisibleAllocator(const VisibleAllocator<Other>&) {}
  T* allocate(std::size_t count) { return static_cast<T*>(allocate_visible(count * sizeof(T))); }
  void deallocate(T* memory, std::size_t) { free_visible(memory); }
  bool operator==(const VisibleAllocator&) const { return true; }
};
template <typename T>
using VisibleVector = std::vector<T, VisibleAllocator<T>>;

}  // namespace draftsmith::test
