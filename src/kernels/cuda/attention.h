// Block-sparse attention on CUDA devices, bf16, by the contract of kernels/attention.h. Two implementations:
//   portable  mma.sync, compute capability 8.0 and newer; head_dim 64, 96, 128, 256; any ratio of heads
//   hopper    TMA and wgmma, compute capability 9.0 exactly; head_dim 64 and 128; 1, 2, 4, 8 or 16 heads
//             per kv head
// Both need rows on 16-byte boundaries (base and stride), and every row of the context and of the blocks to
// be finite: keys that nobody sees are multiplied by 0 when they share a tile with keys that are seen. delta
// of AttentionBackward is not touched; a row's delta is kept in the gradient workspace.
//
// Calls allocate nothing, wait for nothing on the host, and launch the same kernels for every content of the
// intervals, so that they can be captured in a graph. Bits depend on the data alone: never on timing, on the
// number of processors or on what memory held. Without blocks they do not depend on which rows share the call,
// only on where a row's keys lie in the context; with blocks, also on where its block lies among the rows.
//
// A plan is filled once for a set of intervals and serves every call with them (all layers of one window).
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/attention.h"
#include "kernels/attention_plan.h"
#include "tensor/carver.h"

namespace draftsmith::cuda {

enum class AttentionPath { none, portable, hopper };

// The fastest path for a shape on a card of this compute capability (90 for 9.0). Strides and bases are
// checked at the call.
AttentionPath choose_attention_path(const AttentionShape& shape, int compute_capability);

// The arrays of AttentionPlanArrays on the device.
struct AttentionPlan {
  AttentionBudget budget;
  PlanCapacity capacity;
  AttentionPath path = AttentionPath::none;
  std::int32_t forward_tile_rows = kQueryTileRows;
  std::int32_t forward_blocks = 0;  // of threads, of the Hopper forward: the processors of the current device
  Vector<QueryTile> tiles;
  Vector<std::int32_t> forward_order;
  Vector<QueryGroup> groups;
  Vector<std::int32_t> group_order;
  Vector<KeyItem> items;
  Vector<SplitTile> splits;
  Vector<PlanCounts> counts;             // [1]
  Vector<KeyItem> unsorted;              // scratch of the filling
  Vector<std::int32_t> forward_lengths;  // scratch of the filling
  Vector<std::int32_t> lengths;          // scratch of the filling
  Vector<std::int32_t> tickets;          // [2]: forward items taken, blocks of threads that are done
};

AttentionPlan carve_attention_plan(Carver& carver, const AttentionBudget& budget, AttentionPath path);
void fill_attention_plan(const AttentionPlan& plan, const ContextIntervals& intervals, cudaStream_t stream);

// What a backward pass keeps between its kernels; one serves all layers.
struct AttentionGradientScratch {
  Vector<float> statistics;    // [kv_heads, query tiles, 6, 64]: see attention_tile.cuh
  Vector<float> partial_sums;  // [kv_heads, parts, 2, 128, head_dim], Hopper
  Vector<bf16> grad_scores;    // [key slices, 4, 64 keys, 64 packed rows], Hopper
};

// Bytes of grad_scores that no intervals of this budget can exceed. With less, kv heads are done in turn;
// when not even one fits, grad_query is made by recomputation.
std::int64_t most_grad_score_bytes(const AttentionBudget& budget);

// grad_score_bytes: at most this much for grad_scores.
AttentionGradientScratch carve_attention_gradient_scratch(Carver& carver, const AttentionPlan& plan,
                                                          std::int64_t grad_score_bytes);

void launch_attention_forward(const AttentionForward<bf16>& arguments, const AttentionPlan& plan,
                              cudaStream_t stream);
void launch_attention_backward(const AttentionBackward<bf16>& arguments, const AttentionPlan& plan,
                               const AttentionGradientScratch& scratch, cudaStream_t stream);

// Loads every kernel of a path and raises its shared-memory limit; before a graph is captured.
void prepare_attention(AttentionPath path);

}  // namespace draftsmith::cuda
