// What the launchers of the CUDA kernels share: grids, the check after a launch, scratch.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/arithmetic.h"
#include "device/cuda/handle.h"

namespace draftsmith::cuda {

inline constexpr unsigned kWarp = 32;

// A grid's first dimension; the others reach 65535 only.
inline unsigned grid_of(std::int64_t blocks) {
  DRAFTSMITH_CHECK(blocks > 0 && blocks <= 0x7fffffff, "a grid has between 1 and 2^31 - 1 blocks");
  return static_cast<unsigned>(blocks);
}

inline void check_launch(const char* kernel) { check(cudaGetLastError(), kernel); }

// The launch's scratch as an array of `count`.
template <typename E>
E* scratch_array(const Stream& stream, std::int64_t count) {
  DRAFTSMITH_CHECK(stream.scratch_bytes >= count * static_cast<std::int64_t>(sizeof(E)),
                   "a launch is lent the scratch that it asks for");
  return reinterpret_cast<E*>(stream.scratch);
}

}  // namespace draftsmith::cuda
