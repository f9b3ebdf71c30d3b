// One allocation per device, made before seal() with the size that a counting Carver measured.
#pragma once

#include <cstdint>

#include "device/memory.h"
#include "tensor/carver.h"

namespace draftsmith {

class Arena {
 public:
  Arena() = default;
  // Throws Error when the device has not that much memory.
  Arena(const Device& device, std::int64_t bytes)
      : buffer_(Buffer::on_device(device, bytes)), bytes_(bytes) {}

  Carver carver() const { return Carver(buffer_.data(), bytes_); }
  std::int64_t bytes() const { return bytes_; }

 private:
  Buffer buffer_;
  std::int64_t bytes_ = 0;
};

}  // namespace draftsmith
