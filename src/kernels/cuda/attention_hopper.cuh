// What the Hopper attention kernels share.
#pragma once

#include "kernels/cuda/attention_tile.cuh"
#include "kernels/cuda/mbarrier.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/tma.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace draftsmith::cuda {

inline constexpr int kWarpgroup = 128;

// A source is compiled for several targets; those without Hopper's own instructions get empty kernels, which
// choose_attention_path never takes.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
inline constexpr bool kHopperTarget = true;
#else
inline constexpr bool kHopperTarget = false;
#endif

// Where sum `i` of a thread lies in a warpgroup's [64, n] fragment; sum i + 1 of an even i is right of it.
struct FragmentPlace {
  int row, column;
};
__device__ inline FragmentPlace fragment_place(int i) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x % kWarpgroup / 32;
  return {warp * 16 + lane / 4 + i / 2 % 2 * 8, i / 4 * 8 + lane % 4 * 2 + i % 2};
}

// Four 8 by 8 matrices; lane l gives the address of row l % 8 of matrix l / 8.
__device__ inline void store_matrices(std::uint32_t address, const std::uint32_t (&values)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(values[0]),
               "r"(values[1]), "r"(values[2]), "r"(values[3])
               : "memory");
}

// grad_query of the round's kv heads from ds.
void launch_hopper_query_gradient(const AttentionBackward<bf16>& arguments, const AttentionPlan& plan,
                                  const AttentionGradientScratch& scratch, std::int32_t round,
                                  cudaStream_t stream);
void prepare_hopper_query_gradient();

}  // namespace draftsmith::cuda
