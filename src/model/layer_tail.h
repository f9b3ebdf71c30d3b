// The tail of a drafter layer, behind its attention a, on any set of its rows:
//   m = x + Wo a,  next x = m + Wdown (silu(Wgate u) * Wup u),  u = post_attention_norm(m)
// The layers end with all draft rows, the last with the rows of the loss (model/last_layer.h). The last addition is
// left to whoever norms next, with which it is fused.
#pragma once

#include "kernels/launcher.h"
#include "model/linear.h"
#include "model/shape.h"
#include "model/weights.h"
#include "tensor/carver.h"

namespace draftsmith {

// What a tail begins with, or the gradients of both.
template <typename T>
struct TailInput {
  Matrix<T> attention;  // [rows, query_width]: a
  Matrix<T> residual;   // [rows, width]: x
};

// What its forward leaves for its backward.
template <typename T>
struct TailRows {
  Matrix<T> middle;           // [rows, width]: m
  Vector<float> inverse_rms;  // [rows]
  Matrix<T> normed;           // [rows, width]: u
  Matrix<T> gate_up;          // [rows, 2 * intermediate]
  Matrix<T> activated;        // [rows, intermediate]
  Matrix<T> projected;        // [rows, width]: output of o, then of down: the addend handed on

  // For tails of different length that take turns with the same memory.
  TailRows first(std::int64_t rows) const;
};
template <typename T>
TailRows<T> carve_tail_rows(Carver& carver, const DrafterShape& shape, std::int64_t rows);

// Leaves rows.middle and rows.projected, whose sum is the next x. input.residual may be rows.middle.
template <typename T>
void tail_forward(Launcher<T>& launch, const LayerWeights<const T>& weights, const TailInput<T>& input,
                  const TailRows<T>& rows, float epsilon);

// Gradients within a tail's backward, of at least as many rows.
template <typename T>
struct TailScratch {
  Matrix<T> activated;  // [rows, intermediate]
  Matrix<T> gate_up;    // [rows, 2 * intermediate]
  Matrix<T> normed;     // [rows, width]
};
template <typename T>
TailScratch<T> carve_tail_scratch(Carver& carver, const DrafterShape& shape, std::int64_t rows);

// Products aside are left that read residual and scratch.gate_up.
template <typename T>
struct TailBackward {
  const LayerWeights<const T>& weights;
  Matrix<const T> attention;  // [rows, query_width]: a
  const TailRows<T>& rows;
  const TailScratch<T>& scratch;
  // residual: on entry the gradient of the next x, on return that of x: the gradient of m. attention is written.
  TailInput<T> gradients;
  const LayerWeights<float>& weight_gradients;  // added to, but for those of matrices when `write` says so
  GradientWrite write;
};
template <typename T>
void tail_backward(Launcher<T>& launch, const TailBackward<T>& pass);

}  // namespace draftsmith
