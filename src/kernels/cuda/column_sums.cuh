// The last step of every sum over rows: partial sums by part, [parts, width] in scratch, are added to the
// output in the order of the parts.
#pragma once

#include "kernels/cuda/launch.cuh"

namespace draftsmith::cuda {

// How many parts the rows are cut into. Fixed, so that the bits depend on no card; enough to fill one.
inline constexpr std::int64_t kParts = 528;

inline std::int64_t parts_of(std::int64_t items) {
  return std::min<std::int64_t>(kParts, std::max<std::int64_t>(1, items));
}

// output[c] += sum over parts of partial[part][c]
void add_parts(const Stream& stream, const float* partial, std::int64_t parts, std::int64_t width,
               float* output);

}  // namespace draftsmith::cuda
