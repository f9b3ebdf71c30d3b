// Sums and maxima over a warp and a block, in an order fixed by the block's size alone.
#pragma once

#include <cstdint>

namespace draftsmith::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffu;

// The sum over the first `lanes` neighbours that share a group of that many (a power of two); each gets it.
template <typename E>
__device__ E group_sum(E value, int lanes) {
  for (int offset = lanes / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(kAllLanes, value, offset);
  return value;
}

// Every thread of the block gets the sum. `shared` holds 32 values and is free again after the call's second
// barrier; blockDim.x is a multiple of 32.
template <typename E>
__device__ E block_sum(E value, E* shared) {
  value = group_sum(value, 32);
  const int warps = static_cast<int>(blockDim.x) / 32;
  if (warps == 1) return value;
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  E sum = shared[0];
  for (int warp = 1; warp < warps; ++warp) sum += shared[warp];
  __syncthreads();
  return sum;
}

}  // namespace draftsmith::cuda
