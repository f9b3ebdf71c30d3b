// Chooses between the implementations, checks what they need, and lays out their scratch.
#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_tile.cuh"

namespace draftsmith::cuda {

namespace {

template <typename Arguments>
void check_operands(const Arguments& arguments, const AttentionPlan& plan) {
  const AttentionShape& shape = arguments.shape;
  DRAFTSMITH_CHECK(plan.path != AttentionPath::none, "a plan has a path that serves its shape");
  DRAFTSMITH_CHECK(
      arguments.query.rows == plan.budget.rows && arguments.context_key.rows == plan.budget.context_rows,
      "attention has the rows its plan was carved for");
  DRAFTSMITH_CHECK(shape.block_size == 0 || (arguments.block_key.rows == plan.budget.rows &&
                                             plan.budget.rows % shape.block_size == 0),
                   "whole blocks");
  DRAFTSMITH_CHECK(arguments.context_key.rows > 0, "there is a context, if only one that nobody sees");
  check_alignment(arguments.query);
  check_alignment(arguments.context_key);
  check_alignment(arguments.context_value);
  check_alignment(arguments.block_key);
  check_alignment(arguments.block_value);
  check_alignment(arguments.output);
}

}  // namespace

AttentionPath choose_attention_path(const AttentionShape& shape, int compute_capability) {
  const std::int64_t d = shape.head_dim, heads = packed_heads(shape);
  const bool portable = compute_capability >= 80 && (d == 64 || d == 96 || d == 128 || d == 256) &&
                        shape.block_size >= 0 && shape.block_size <= 32;
  if (!portable) return AttentionPath::none;
  const bool whole_tokens = heads <= 16 && kQueryTileRows % heads == 0;
  return compute_capability == 90 && (d == 64 || d == 128) && whole_tokens ? AttentionPath::hopper
                                                                           : AttentionPath::portable;
}

std::int64_t most_grad_score_slices(const AttentionBudget& budget) {
  const std::int64_t groups = plan_capacity(budget, kQueryTileRows).groups;
  const std::int64_t context = div_ceil(budget.context_rows, kKeySliceRows);
  if (budget.shape.block_size == 0) return groups * context;
  // The tokens of a group, and the rest of the blocks that they begin and end.
  const std::int64_t own_rows =
      div_ceil(kGroupRows, packed_heads(budget.shape)) + 1 + 2 * budget.shape.block_size;
  return groups * (context + div_ceil(own_rows, kKeySliceRows) + 1);
}

std::int64_t most_grad_score_bytes(const AttentionBudget& budget) {
  return most_grad_score_slices(budget) * budget.shape.kv_heads * kGradScoreSlice *
         static_cast<std::int64_t>(sizeof(bf16));
}

AttentionGradientScratch carve_attention_gradient_scratch(Carver& carver, const AttentionPlan& plan,
                                                          std::int64_t grad_score_bytes) {
  const AttentionShape& shape = plan.budget.shape;
  AttentionGradientScratch scratch;
  scratch.statistics = carver.vector<float>(shape.kv_heads * plan.capacity.query_tiles * kStatisticFloats);
  if (plan.path != AttentionPath::hopper) return scratch;
  scratch.partial_sums =
      carver.vector<float>(shape.kv_heads * plan.capacity.parts * 2 * kKeyTileRows * shape.head_dim);
  const std::int64_t slice_bytes = kGradScoreSlice * static_cast<std::int64_t>(sizeof(bf16));
  const std::int64_t bytes = std::min(grad_score_bytes, most_grad_score_bytes(plan.budget));
  scratch.grad_scores = carver.vector<bf16>(bytes / slice_bytes * kGradScoreSlice);
  return scratch;
}

void launch_attention_forward(const AttentionForward<bf16>& arguments, const AttentionPlan& plan,
                              cudaStream_t stream) {
  if (arguments.query.rows == 0) return;
  check_operands(arguments, plan);
  if (plan.path == AttentionPath::hopper) {
    launch_hopper_forward(arguments, plan, stream);
  } else {
    launch_portable_forward(arguments, plan, stream);
  }
}

void launch_attention_backward(const AttentionBackward<bf16>& arguments, const AttentionPlan& plan,
                               const AttentionGradientScratch& scratch, cudaStream_t stream) {
  if (arguments.query.rows == 0) return;
  check_operands(arguments, plan);
  DRAFTSMITH_CHECK(plan.budget.gradients, "a backward pass has a plan that was carved for gradients");
  check_alignment(arguments.grad_output);
  check_alignment(arguments.grad_query);
  check_alignment(arguments.grad_context_key);
  check_alignment(arguments.grad_context_value);
  check_alignment(arguments.grad_block_key);
  check_alignment(arguments.grad_block_value);
  launch_attention_statistics(arguments, plan, scratch, stream);
  if (plan.path == AttentionPath::hopper) {
    launch_hopper_backward(arguments, plan, scratch, stream);
  } else {
    launch_portable_key_gradients(arguments, plan, scratch, stream);
    launch_portable_query_gradient(arguments, plan, scratch, false, stream);
  }
}

void prepare_attention(AttentionPath path) {
  if (path == AttentionPath::none) return;
  prepare_portable_forward();
  prepare_portable_backward();
  if (path != AttentionPath::hopper) return;
  prepare_hopper_forward();
  prepare_hopper_backward();
}

}  // namespace draftsmith::cuda
