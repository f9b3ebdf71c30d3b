// Owned bytes: on a device, or pinned host memory that devices copy from and to. Allocated once, before
// seal().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "device/device.h"

namespace draftsmith {

inline constexpr std::int64_t kMemoryAlignment = 256;

// Whether the host may read and write what Buffer::on_device gives; elsewhere see device/stream.h.
bool host_addressable(const Device& device);

// What a run may still allocate: what is free on a GPU, less what its kernels and libraries take beside; for a
// CPU device, the machine's. Not more than Device::memory_limit_bytes.
std::int64_t available_bytes(const Device& device);
// Memory of the machine that is available without swapping, within the limits of the process's control groups.
std::int64_t available_host_bytes();

// 256-byte aligned. Empty when default-constructed or moved from. Pages are touched at allocation, so
// resident memory does not move afterwards.
class Buffer {
 public:
  Buffer() = default;

  // Throws Error naming the device and the bytes when the memory is not there.
  static Buffer on_device(const Device& device, std::int64_t bytes);
  // Host memory that is pinned once a GPU has been opened, so that it copies from and to it without waiting;
  // plain pages where there are only CPU devices.
  static Buffer pinned(std::int64_t bytes);

  std::byte* data() const { return data_.get(); }
  std::int64_t bytes() const { return bytes_; }

 private:
  enum class Where { host, pinned, gpu };
  struct Free {
    Where where;  // 0 where nothing is owned: the host
    int device;
    std::int64_t pinned_bytes;  // 0 unless Buffer::pinned gave them
    void operator()(std::byte* memory) const;
  };
  Buffer(std::byte* data, std::int64_t bytes, Free free) : data_(data, free), bytes_(bytes) {}

  std::unique_ptr<std::byte, Free> data_;
  std::int64_t bytes_ = 0;
};

// Whether memory of `from` is copied straight to that of `to`, by a link or because it is one memory; makes it so.
// Before seal().
bool reaches(const Device& from, const Device& to);

// What the driver says is in use on a GPU, by whomever; 0 of a CPU device. May be asked after seal(), by the
// main thread.
std::int64_t bytes_in_use(const Device& device);
// What Buffer::pinned has given and not taken back, in this process.
std::int64_t pinned_bytes();

}  // namespace draftsmith
