// Cross entropy with its gradient in place, bf16, read once and written once: a row is spread over the shared memory of
// a cluster of blocks. Each block copies its slice there, sums it as it arrives, and learns the row's sum from the
// others' results; then it makes the gradient of what it kept. Blocks of other rows share the processor, so that one
// row's loads overlap with another's stores.
#include <algorithm>
#include <limits>

#include "kernels/cross_entropy.h"
#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/running_softmax.cuh"

namespace draftsmith::cuda {

namespace {

constexpr int kVector = kWide<bf16>, kWarps = kRowThreads / 32;
constexpr int kMostBlocks = 8;                    // of a portable cluster
constexpr std::int64_t kWantedSlice = 54 * 1024;  // bytes: four blocks a processor
constexpr std::int64_t kMostSlice = 200 * 1024;   // bytes: one
constexpr float kLog2E = 1.44269504088896340736f;

// Within 2^-22 of itself and the rounding of its argument, where a stored gradient has 2^-9.
__device__ float exp_fast(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x * kLog2E));
  return result;
}

// What is taken from exponents: where all is -infinity nothing, so that its exponentials are 0.
__device__ float shift_of(float maximum) { return maximum == -kInfinity ? 0.0f : maximum; }

// 16 bytes to shared memory, asynchronously.
__device__ void copy_vector(void* to, const void* from) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(from) : "memory");
}
__device__ void end_of_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int left>
__device__ void wait_for_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
}

// Adds the vector of columns from `column` on.
__device__ void add_vector(Running& running, const float (&values)[kVector], std::int32_t column) {
  float maximum = values[0];
#pragma unroll
  for (int i = 1; i < kVector; ++i) maximum = fmaxf(maximum, values[i]);
  if (maximum > running.maximum) {
    running.sum *= exp_fast(running.maximum - maximum);
    running.maximum = maximum;
#pragma unroll
    for (int i = kVector - 1; i >= 0; --i)
      running.column = values[i] == maximum ? column + i : running.column;
  }
  const float shift = shift_of(running.maximum);
#pragma unroll
  for (int i = 0; i < kVector; ++i) running.sum += exp_fast(values[i] - shift);
}

// The warp's lanes together, for every lane: the same tree of additions whatever the values are.
__device__ Running merge_warp(const Running& mine) {
  Running all = mine;
  for (int step = 16; step > 0; step /= 2) {
    all.maximum = fmaxf(all.maximum, __shfl_xor_sync(kAllLanes, all.maximum, step));
  }
  all.column = static_cast<std::int32_t>(__reduce_min_sync(
      kAllLanes, mine.maximum == all.maximum ? mine.column : std::numeric_limits<std::int32_t>::max()));
  all.sum = group_sum(mine.sum * exp_fast(mine.maximum - shift_of(all.maximum)), 32);
  return all;
}

// A row's result from its warps' results, which lie in shared memory; each lane takes every 32nd.
__device__ Running merge_parts(const Running* parts, int count) {
  Running mine;
  for (int part = static_cast<int>(threadIdx.x) % 32; part < count; part += 32) {
    const Running& other = parts[part];
    const float maximum = fmaxf(mine.maximum, other.maximum), shift = shift_of(maximum);
    if (other.maximum > mine.maximum || (other.maximum == mine.maximum && other.column < mine.column)) {
      mine.column = other.column;
    }
    mine.sum = mine.sum * exp_fast(mine.maximum - shift) + other.sum * exp_fast(other.maximum - shift);
    mine.maximum = maximum;
  }
  return merge_warp(mine);
}

__global__ void __launch_bounds__(kRowThreads)
    cross_entropy_cluster_kernel(CrossEntropyWithGradient<bf16> arguments, unsigned blocks,
                                 std::int64_t slice) {
#if __CUDA_ARCH__ >= 900
  extern __shared__ uint4 kept[];
  __shared__ Running
      parts[kMostBlocks * kWarps];  // of all blocks' warps, in the order of their columns' blocks
  const int rank = static_cast<int>(blockIdx.x % blocks);
  const std::int64_t row = blockIdx.x / blocks, columns = arguments.logits.columns, first = rank * slice;
  const int vectors = static_cast<int>(max(std::int64_t{0}, min(slice, columns - first)) / kVector);
  bf16* const logits = arguments.logits.row(row) + first;
  const std::int32_t label = arguments.labels.data[row];
  if (label >= columns) __trap();  // a label is a token of the vocabulary
  if (label < 0) {
    for (int v = threadIdx.x; v < vectors; v += kRowThreads) reinterpret_cast<uint4*>(logits)[v] = uint4{};
    if (rank != 0 || threadIdx.x != 0) return;
    arguments.nll.data[row] = 0;
    arguments.predictions.data[row] = -1;
    return;
  }
  cluster_arrive();  // others may write into this block's memory
  // Each thread copies what it reads itself, in two groups: no barrier, and the first half is summed meanwhile.
  const int half = (vectors / kRowThreads / 2 + 1) * kRowThreads;
  for (int v = threadIdx.x; v < min(half, vectors); v += kRowThreads)
    copy_vector(kept + v, logits + v * kVector);
  end_of_group();
  for (int v = half + threadIdx.x; v < vectors; v += kRowThreads) copy_vector(kept + v, logits + v * kVector);
  end_of_group();
  const float label_logit = to_float(arguments.logits(row, label));

  Running running;
  const auto add = [&](int begin, int end) {
    for (int v = begin + threadIdx.x; v < end; v += kRowThreads) {
      float values[kVector];
      load(reinterpret_cast<const bf16*>(kept + v), values);
      add_vector(running, values, static_cast<std::int32_t>(first) + v * kVector);
    }
  };
  wait_for_groups<1>();
  add(0, min(half, vectors));
  wait_for_groups<0>();
  add(half, vectors);
  running = merge_warp(running);
  cluster_wait();
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (lane < blocks) store_in_block(&parts[rank * kWarps + warp], lane, running);
  cluster_arrive();
  cluster_wait();
  running = merge_parts(parts, static_cast<int>(blocks) * kWarps);

  const float normalizer = running.maximum + logf(running.sum);
  if (rank == 0 && threadIdx.x == 0) {
    arguments.nll.data[row] = normalizer - label_logit;
    arguments.predictions.data[row] = running.maximum == -kInfinity ? 0 : running.column;
  }
  const int label_vector = static_cast<int>((label - first) / kVector);
  for (int v = threadIdx.x; v < vectors; v += kRowThreads) {
    float values[kVector];
    load(reinterpret_cast<const bf16*>(kept + v), values);
#pragma unroll
    for (int i = 0; i < kVector; ++i) values[i] = exp_fast(values[i] - normalizer);
    if (v == label_vector && label >= first) {
#pragma unroll
      for (int i = 0; i < kVector; ++i) values[i] -= label % kVector == i ? 1.0f : 0.0f;
    }
    store(logits + v * kVector, values);
  }
#endif
}

struct Cut {
  unsigned blocks = 0;  // of a row; 0: the row does not fit
  std::int64_t slice = 0;
};
Cut cut_of(std::int64_t columns) {
  constexpr std::int64_t kElement = sizeof(bf16);
  const std::int64_t blocks =
      std::clamp<std::int64_t>(div_ceil(columns * kElement, kWantedSlice), 1, kMostBlocks);
  const std::int64_t slice = round_up(div_ceil(columns, blocks), kVector);
  return slice * kElement <= kMostSlice ? Cut{static_cast<unsigned>(blocks), slice} : Cut{};
}

}  // namespace

bool cross_entropy_fits_cluster(const Device& device, const Matrix<bf16>& logits) {
  return device.traits.compute >= 90 && is_wide(logits) && cut_of(logits.columns).blocks > 0;
}

void cross_entropy_in_clusters(const Stream& stream, const CrossEntropyWithGradient<bf16>& arguments) {
  const Cut cut = cut_of(arguments.logits.columns);
  const auto bytes = static_cast<std::size_t>(cut.slice) * sizeof(bf16);
  check(cudaFuncSetAttribute(cross_entropy_cluster_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        "raising the shared memory of cross entropy");
  launch_clusters(stream, cross_entropy_cluster_kernel, arguments.logits.rows, cut.blocks, kRowThreads, bytes,
                  arguments, cut.blocks, cut.slice);
}

}  // namespace draftsmith::cuda
