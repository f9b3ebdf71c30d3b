// A row of logits read once by a block of threads: each thread keeps a running maximum, its place, and the sum
// of exponentials below it; the threads' results are merged in one order.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/vector.cuh"

namespace draftsmith::cuda {

inline constexpr int kRowThreads = 512;
template <typename T>
inline constexpr int kLogitVector = 2 * kWide<T>;  // two loads in flight a thread
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A part of a row: its maximum, the lowest column that has it, and the sum of exp(scale * (x - maximum)).
struct Running {
  float maximum = -kInfinity;
  std::int32_t column = 0x7fffffff;
  float sum = 0;
};

// 0 below a maximum of -infinity, where nothing has been summed.
__device__ inline float shrink(float maximum, float new_maximum, float scale) {
  return maximum == -kInfinity ? 0.0f : expf((maximum - new_maximum) * scale);
}

__device__ inline Running merge(const Running& a, const Running& b, float scale) {
  Running merged;
  merged.maximum = fmaxf(a.maximum, b.maximum);
  const bool from_b = b.maximum > a.maximum || (b.maximum == a.maximum && b.column < a.column);
  merged.column = from_b ? b.column : a.column;
  merged.sum =
      a.sum * shrink(a.maximum, merged.maximum, scale) + b.sum * shrink(b.maximum, merged.maximum, scale);
  return merged;
}

// Every thread gets the row's result.
__device__ inline Running merge_block(Running running, float scale) {
  __shared__ Running warps[kRowThreads / 32];
  for (int offset = 16; offset > 0; offset /= 2) {
    Running other;
    other.maximum = __shfl_down_sync(kAllLanes, running.maximum, offset);
    other.column = __shfl_down_sync(kAllLanes, running.column, offset);
    other.sum = __shfl_down_sync(kAllLanes, running.sum, offset);
    running = merge(running, other, scale);
  }
  __syncthreads();  // an earlier result has been read
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = running;
  __syncthreads();
  running = warps[0];
  for (int warp = 1; warp < kRowThreads / 32; ++warp) running = merge(running, warps[warp], scale);
  return running;
}

template <int count, bool with_sum, typename T>
__device__ Running walk_row(const T* row, std::int64_t columns, float scale) {
  Running running;
  for (std::int64_t column = static_cast<std::int64_t>(threadIdx.x) * count; column < columns;
       column += static_cast<std::int64_t>(kRowThreads) * count) {
    float values[count];
    load(row + column, values);
    float maximum = running.maximum;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      if (values[i] > maximum) {
        maximum = values[i];
        running.column = static_cast<std::int32_t>(column) + i;
      }
    }
    if constexpr (with_sum) {
      if (maximum > running.maximum) running.sum *= shrink(running.maximum, maximum, scale);
#pragma unroll
      for (int i = 0; i < count; ++i) {
        running.sum += values[i] == -kInfinity ? 0.0f : expf((values[i] - maximum) * scale);
      }
    }
    running.maximum = maximum;
  }
  return running;
}

// Rows of an odd vocabulary, or that begin elsewhere than on 16 bytes, are walked element by element.
template <typename T>
bool is_wide_row(const Matrix<const T>& logits) {
  return is_wide(logits) && logits.columns % kLogitVector<T> == 0;
}

}  // namespace draftsmith::cuda
