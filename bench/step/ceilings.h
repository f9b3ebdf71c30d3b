// What a device can do at most, measured in the same run: the yardsticks beside the products themselves.
#pragma once

#include <vector>

#include "bench/step/recorder.h"
#include "kernels/launcher.h"

namespace draftsmith::bench {

// The products of a pass once more, prepared as they are and on the same memory, with nothing between them.
void launch_again(const Stream& stream, const std::vector<LaunchedProduct>& products);

// 2 * multiply-adds a second of a product of 8192^3, the median of a few. Allocates what it needs for the while.
double product_ceiling(const Device& device);

// Bytes a second that the device's threads read together from memory far beyond the caches: the best of a few.
// CPU devices only.
double read_bandwidth(const Device& device);

}  // namespace draftsmith::bench
