// Splits a CPU launch over the workers of the calling thread. The split is static and depends on the count
// and the device's thread count alone; a body writes only what belongs to its indices, so results do not
// depend on the split unless a kernel says so.
#pragma once

#include <cstdint>

#include "device/device.h"

namespace draftsmith {

// Creates the workers of the calling thread, once.
void start_workers(int threads);

// body(begin, end): called once per worker with a contiguous range of [0, count), or at once in this thread when the
// device has one worker or `work` (about the number of scalar operations) is below Device::work_worth_sharing.
template <typename Body>
void parallel_ranges(const Stream& stream, std::int64_t count, std::int64_t work, const Body& body) {
  const std::int64_t parts = work < stream.device->work_worth_sharing
                                 ? 1
                                 : (stream.device->threads < count ? stream.device->threads : count);
  if (parts <= 1) {
    if (count > 0) body(std::int64_t{0}, count);
    return;
  }
#pragma omp parallel for schedule(static, 1) num_threads(static_cast <int>(parts))
  for (std::int64_t part = 0; part < parts; ++part) {
    body(count * part / parts, count * (part + 1) / parts);
  }
}

}  // namespace draftsmith
