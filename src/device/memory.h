// Owned bytes: on a device, or pinned host memory that devices copy from and to. Allocated once, before
// seal().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "device/device.h"

namespace draftsmith {

inline constexpr std::int64_t kMemoryAlignment = 256;

// 256-byte aligned. Empty when default-constructed or moved from. Pages are touched at allocation, so
// resident memory does not move afterwards.
class Buffer {
 public:
  Buffer() = default;

  // Throws Error naming the device and the bytes when the memory is not there.
  static Buffer on_device(const Device& device, std::int64_t bytes);
  // Pinned where a GPU will copy from or to it; plain pages for CPU devices.
  static Buffer pinned(std::int64_t bytes);

  std::byte* data() const { return data_.get(); }
  std::int64_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  Buffer(std::byte* data, std::int64_t bytes) : data_(data), bytes_(bytes) {}
  static Buffer allocate(std::int64_t bytes, const char* where);

  std::unique_ptr<std::byte, Free> data_;
  std::int64_t bytes_ = 0;
};

}  // namespace draftsmith
