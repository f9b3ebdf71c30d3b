// Block-sparse attention. A query row sees an interval [begin, end) of context rows and, when block_size > 0,
// the rows of its own block (those up to itself when causal_in_block). The interval is data, so one kernel
// serves
//   training:  begin = first row of the document, or anchor + offset - (window - 1) if that is later;
//              end = the anchor's row
//   prefill:   block_size 0, begin = first row of the document, end = own row + 1
//   decoding:  the context is the cache
// A row with end < 0 belongs to an invalid block: it sees nothing, its output and all its gradients are 0,
// and no row of its block is seen by anyone.
//   p = softmax(q k^T * scale) over all visible keys,  o = p v
// Query head h uses kv head h / (query_heads / kv_heads).
// Backward, with d = sum(grad_o * o) per row and head:
//   grad_v = p^T grad_o,  ds = p * (grad_o v^T - d),  grad_q = scale * ds k,  grad_k = scale * ds^T q
// What a device makes of the intervals before it walks them, its plan, is made once by PrepareAttention and serves
// every launch with these intervals and shape (all layers of one window); launches without one make their own.
// Never a dense score matrix: keys are walked in tiles with a running maximum and sum (online softmax;
// Milakov and Gimelshein 2018). A row's bits do not depend on which rows share the call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/tensor.h"

namespace draftsmith {

struct AttentionShape {
  std::int64_t query_heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t block_size = 0;  // 0: no own block
  bool causal_in_block = false;
  float scale = 0;  // head_dim^-1/2
};

// Which context rows each query row sees.
struct ContextIntervals {
  Vector<const std::int32_t> begin;  // [rows]
  Vector<const std::int32_t> end;    // [rows]; < 0: an invalid block's row
};

enum class AttentionPasses { forward, forward_and_backward };

// Fills a plan. Launcher::attention_plan_bytes says how many bytes it takes: none on a device that needs no plan.
template <typename T>
struct PrepareAttention {
  AttentionShape shape;
  ContextIntervals intervals;
  std::int64_t context_rows = 0;
  AttentionPasses passes = AttentionPasses::forward_and_backward;
  Vector<std::byte> plan;  // written; for launches with rows on 16 bytes
};

template <typename T>
struct AttentionForward {
  AttentionShape shape;
  ContextIntervals intervals;
  Vector<std::byte> plan;                      // of the same shape, intervals and rows; or empty
  Matrix<const T> query;                       // [rows, query_heads * head_dim]
  Matrix<const T> context_key, context_value;  // [context rows, kv_heads * head_dim]
  Matrix<const T> block_key, block_value;      // [rows, kv_heads * head_dim], empty when block_size is 0
  Matrix<T> output;                            // [rows, query_heads * head_dim]
  Matrix<float> log_sum_exp;  // [rows, query_heads], natural log, -inf where nothing is seen; saved, or empty
};

template <typename T>
struct AttentionBackward {
  AttentionShape shape;
  ContextIntervals intervals;
  Vector<std::byte> plan;  // of the same shape, intervals and rows, for both passes; or empty
  Matrix<const T> query, context_key, context_value, block_key, block_value, output;  // as in forward
  Matrix<const float> log_sum_exp;
  Matrix<const T> grad_output;                     // [rows, query_heads * head_dim]
  Matrix<float> delta;                             // [rows, query_heads], scratch
  Matrix<T> grad_query;                            // [rows, query_heads * head_dim]
  Matrix<T> grad_context_key, grad_context_value;  // [context rows, kv_heads * head_dim]; unseen rows get 0
  Matrix<T> grad_block_key, grad_block_value;      // [rows, kv_heads * head_dim]
};

}  // namespace draftsmith
