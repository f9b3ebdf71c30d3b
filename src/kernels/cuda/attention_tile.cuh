// What the attention kernels share: packed rows, the statistics that backward reads, and launch checks.
#pragma once

#include <string>

#include <cuda_runtime.h>

#include "kernels/attention_plan.h"
#include "kernels/cuda/attention.h"

namespace draftsmith::cuda {

inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;

// The statistics of a query tile, [6, 64]: one bulk copy brings them. Rows past the last, rows that see
// nothing and rows of invalid blocks have +inf as log2_sum_exp, so that their probabilities are 2^-inf = 0.
enum class Statistic { log2_sum_exp, delta, context_begin, context_end, own_begin, own_end, count };
inline constexpr int kStatisticFloats = static_cast<int>(Statistic::count) * kQueryTileRows;
inline constexpr int kStatisticBytes = kStatisticFloats * 4;

__device__ constexpr int statistic_place(Statistic which) { return static_cast<int>(which) * kQueryTileRows; }

// Packed row -> token and query head, for one kv head.
struct PackedRows {
  std::int32_t heads;   // query heads per kv head
  std::int32_t tokens;  // query rows of the call
  std::int32_t kv_head;

  __device__ std::int32_t token(std::int32_t packed) const { return packed / heads; }
  __device__ std::int32_t head(std::int32_t packed) const { return kv_head * heads + packed % heads; }
  __device__ bool inside(std::int32_t packed) const { return packed < tokens * heads; }
};

// Throws Error when an API call or the launch before it failed.
inline void check_cuda(cudaError_t error, const char* tried) {
  if (error == cudaSuccess) return;
  throw Error(std::string("CUDA failed at ") + tried + ": " + cudaGetErrorString(error));
}
inline void check_launch(const char* kernel) { check_cuda(cudaGetLastError(), kernel); }

template <typename Kernel>
void allow_shared_memory(Kernel* kernel, std::int64_t bytes) {
  check_cuda(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
      "raising the shared-memory limit of an attention kernel");
}

inline std::int32_t packed_heads(const AttentionShape& shape) {
  return static_cast<std::int32_t>(shape.query_heads / shape.kv_heads);
}

// Bases and strides on 16-byte boundaries, as 16-byte copies need.
template <typename T>
void check_alignment(const Matrix<T>& matrix) {
  DRAFTSMITH_CHECK(reinterpret_cast<std::uintptr_t>(matrix.data) % 16 == 0 && matrix.stride % 8 == 0,
                   "the fast attention kernels need rows on 16-byte boundaries");
}

// How many kv heads' ds a buffer of this many slices holds at once; 0: not one. The same on the device and
// on the host, and every round of the backward pass asks anew.
constexpr std::int32_t heads_in_round(std::int64_t capacity_slices, std::int32_t stored_slices,
                                      std::int32_t kv_heads) {
  if (stored_slices == 0) return kv_heads;
  return static_cast<std::int32_t>(std::min<std::int64_t>(kv_heads, capacity_slices / stored_slices));
}

// Work lists hold tiles of one kv head; launches walk them for all heads. Pairs of heads are outermost, so
// that what two heads read stays in the L2 cache; inside a pair the list's order holds.
struct ListPlace {
  std::int32_t index, head;
};
constexpr ListPlace list_place(std::int32_t item, std::int32_t count, std::int32_t heads) {
  const std::int32_t pair = heads % 2 == 0 ? 2 : 1;
  const std::int32_t within = item % (count * pair);
  return {within / pair, item / (count * pair) * pair + within % pair};
}

// bf16 of one key slice by one group.
inline constexpr std::int64_t kGradScoreSlice = static_cast<std::int64_t>(kKeySliceRows) * kGroupRows;

// Key slices of ds that no intervals can exceed, for one kv head.
std::int64_t most_grad_score_slices(const AttentionBudget& budget);

// Packed rows of a forward item.
std::int32_t forward_tile_rows(AttentionPath path);

// The implementations, chosen by AttentionPlan::path.
void launch_portable_forward(const AttentionForward<bf16>& arguments, const AttentionPlan& plan,
                             cudaStream_t stream);
void launch_hopper_forward(const AttentionForward<bf16>& arguments, const AttentionPlan& plan,
                           cudaStream_t stream);

// Fills the statistics.
void launch_attention_statistics(const AttentionBackward<bf16>& arguments, const AttentionPlan& plan,
                                 const AttentionGradientScratch& scratch, cudaStream_t stream);

void launch_portable_key_gradients(const AttentionBackward<bf16>& arguments, const AttentionPlan& plan,
                                   const AttentionGradientScratch& scratch, cudaStream_t stream);
// With `only_unless_stored` the kernel does nothing when ds of at least one kv head fits grad_scores.
void launch_portable_query_gradient(const AttentionBackward<bf16>& arguments, const AttentionPlan& plan,
                                    const AttentionGradientScratch& scratch, bool only_unless_stored,
                                    cudaStream_t stream);

// Key gradients and ds, then grad_query from ds, in rounds of kv heads.
void launch_hopper_backward(const AttentionBackward<bf16>& arguments, const AttentionPlan& plan,
                            const AttentionGradientScratch& scratch, cudaStream_t stream);

void prepare_portable_forward();
void prepare_portable_backward();
void prepare_hopper_forward();
void prepare_hopper_backward();

}  // namespace draftsmith::cuda
