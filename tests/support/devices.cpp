#include "support/devices.h"

#include <cstdlib>
#include <map>

#include "device/memory.h"

namespace draftsmith::test {

namespace {

bool on_gpu() { return device_options().device.name.kind == DeviceKind::cuda; }

std::map<void*, Buffer>& pinned() {
  static std::map<void*, Buffer> buffers;
  return buffers;
}

}  // namespace

DeviceOptions& device_options() {
  static DeviceOptions options;
  return options;
}

void* allocate_visible(std::size_t bytes) {
  if (!on_gpu()) return ::operator new(bytes);
  Buffer buffer = Buffer::pinned(static_cast<std::int64_t>(bytes));
  void* memory = buffer.data();
  pinned().emplace(memory, std::move(buffer));
  return memory;
}

void free_visible(void* memory) {
  if (!on_gpu()) return ::operator delete(memory);
  pinned().erase(memory);
}

}  // namespace draftsmith::test
