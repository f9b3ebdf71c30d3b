// What a device can do at most, measured in the same run: the yardsticks beside the products themselves.
#pragma once

#include <vector>

#include "bench/step/recorder.h"
#include "device/memory.h"
#include "kernels/launcher.h"

namespace draftsmith::bench {

// The products of a pass once more, prepared as they are and on the same memory, with nothing between them.
void launch_again(const Stream& stream, const std::vector<LaunchedProduct>& products);

// 2 * multiply-adds a second of a product of 8192^3, the median of a few. Allocates what it needs for the while.
double product_ceiling(const Device& device);

// Reads memory far beyond the caches with all threads of a CPU device.
class MemoryReader {
 public:
  explicit MemoryReader(const Device& device);
  void read();  // every byte once
  std::int64_t bytes() const { return buffer_.bytes(); }

 private:
  const Device& device_;
  Buffer buffer_;
};

}  // namespace draftsmith::bench
