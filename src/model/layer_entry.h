// The entry of a drafter layer, on any set of its rows:
//   h = input_norm(x),  q = Wq h,  [k; v] = Wkv h
// The layers enter with all draft rows, the first with its distinct ones (model/first_layer.h). The norm stands alone,
// since the addition before it is usually fused with it.
#pragma once

#include "kernels/launcher.h"
#include "model/linear.h"
#include "model/shape.h"
#include "model/weights.h"
#include "tensor/carver.h"

namespace draftsmith {

// The rows, or the gradients of each of these.
template <typename T>
struct EntryRows {
  Matrix<T> input;            // [rows, width]: x
  Vector<float> inverse_rms;  // [rows]; has no gradient
  Matrix<T> normed;           // [rows, width]: h
  Matrix<T> query;            // [rows, query_width]
  Matrix<T> key_value;        // [rows, 2 * kv_width]
};
template <typename T>
EntryRows<T> carve_entry_rows(Carver& carver, const DrafterShape& shape, std::int64_t rows);

// rows.input -> rows.normed, rows.inverse_rms.
template <typename T>
void norm_entry(Launcher<T>& launch, const LayerWeights<const T>& weights, const EntryRows<T>& rows,
                float epsilon);
// rows.normed -> rows.query, rows.key_value.
template <typename T>
void project_entry(Launcher<T>& launch, const LayerWeights<const T>& weights, const EntryRows<T>& rows);

// Awaits products aside before it writes, and leaves some that read the gradients of query and key_value.
template <typename T>
struct EntryBackward {
  const LayerWeights<const T>& weights;
  const EntryRows<T>& rows;
  const EntryRows<T>& gradients;  // query and key_value are read, normed and input written
  Matrix<const T> grad_residual;  // [rows, width]: what else reaches x, or empty; may be gradients.input
  const LayerWeights<float>& weight_gradients;  // added to, but for those of matrices when `write` says so
  GradientWrite write;
};
template <typename T>
void entry_backward(Launcher<T>& launch, const EntryBackward<T>& pass);

}  // namespace draftsmith
