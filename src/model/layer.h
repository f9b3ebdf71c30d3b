// One drafter layer, forward and backward. Queries come from the draft rows only; keys and values from the
// context, which every layer shares, and from the draft rows. Between its entry (model/layer_entry.h), which makes q
// and [k; v] of x, and its tail (model/layer_tail.h), which makes the next x of x and a,
//   q = rope(q_norm(q)),  k = rope(k_norm(k))
//   a = attention(q, [context k; k], [context v; v])
// The residual additions are fused with the norm that follows: the layer receives h ready-normed and hands
// its last addend to whoever norms next.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/launcher.h"
#include "model/layer_entry.h"
#include "model/layer_tail.h"
#include "model/micro_batch.h"
#include "model/shape.h"
#include "model/weights.h"

namespace draftsmith {

// What a layer's forward leaves for its backward.
template <typename T>
struct LayerSaved {
  Matrix<T> input;                  // [rows, width]: x
  Vector<float> input_inverse_rms;  // [rows]
  Matrix<T> normed;                 // [rows, width]: h
  Matrix<T> query;                  // [rows, query_width]: before norm and rope
  Matrix<T> key_value;              // [rows, 2 * kv_width]: k before norm and rope, v
  Matrix<float> query_inverse_rms;  // [rows, query_heads]
  Matrix<float> key_inverse_rms;    // [rows, kv_heads]
  Matrix<T> rotated_query;          // [rows, query_width]
  Matrix<T> rotated_key;            // [rows, kv_width]
  Matrix<T> attention;              // [rows, query_width]: a
  Matrix<float> log_sum_exp;        // [rows, query_heads]
  TailRows<T> tail;                 // of the same rows; of the last layer the rows of the loss

  EntryRows<T> entry() const { return {input, input_inverse_rms, normed, query, key_value}; }
};
// The tail's rows are counted apart.
template <typename T>
LayerSaved<T> carve_layer_saved(Carver& carver, const DrafterShape& shape, std::int64_t rows,
                                std::int64_t tail_rows);

// Gradients within one layer's backward; reused by every layer.
template <typename T>
struct LayerScratch {
  TailScratch<T> tail;
  Matrix<T> normed;     // [rows, width]: of h, in the place of tail.normed
  Matrix<T> attention;  // [rows, query_width]
  Matrix<T> query;      // [rows, query_width]
  Matrix<T> key_value;  // [rows, 2 * kv_width]
  Matrix<float> delta;  // [rows, query_heads]
};
// tail_rows: of the longest tail among the layers.
template <typename T>
LayerScratch<T> carve_layer_scratch(Carver& carver, const DrafterShape& shape, std::int64_t rows,
                                    std::int64_t tail_rows);

// One layer's part of the context: slices of DrafterContext.
template <typename T>
struct LayerContext {
  Matrix<const T> keys;    // [context, kv_width]: after norm and rope
  Matrix<const T> values;  // [context, kv_width]
  Vector<std::byte> plan;  // of the layer's attention over the batch; empty: each launch makes its own
};

template <typename T>
class DrafterLayer {
 public:
  DrafterLayer(const DrafterShape& shape, std::int64_t index) : shape_(shape), index_(index) {}

  // What fills `plan` for both passes over a context of so many rows.
  PrepareAttention<T> prepare(const MicroBatch& batch, std::int64_t context_rows,
                              Vector<std::byte> plan) const;

  // Reads saved.query and saved.key_value, leaves saved.attention.
  void attend(Launcher<T>& launch, const LayerWeights<const T>& weights, const RopeTable& rope,
              const LayerContext<T>& context, const MicroBatch& batch, const LayerSaved<T>& saved) const;
  // Attends, then runs the tail: leaves saved.tail.middle and saved.tail.projected, whose sum is the next x.
  void forward(Launcher<T>& launch, const LayerWeights<const T>& weights, const RopeTable& rope,
               const LayerContext<T>& context, const MicroBatch& batch, const LayerSaved<T>& saved) const;

  struct ContextGradient {
    Matrix<T> keys;    // [context, kv_width], written
    Matrix<T> values;  // [context, kv_width], written
  };

  // From scratch.attention, the gradient of saved.attention, to those of the entry's products in scratch.query and
  // scratch.key_value. Weight gradients, of vectors only, are added to.
  void attend_backward(Launcher<T>& launch, const LayerWeights<const T>& weights, const RopeTable& rope,
                       const LayerContext<T>& context, const MicroBatch& batch, const LayerSaved<T>& saved,
                       const LayerScratch<T>& scratch, const ContextGradient& context_gradient,
                       const LayerWeights<float>& weight_gradients) const;
  // That of forward. residual: on entry the gradient of the layer's output, on return what of it passes the entry by:
  // the gradient of m. Weight gradients are added to, but for those of matrices when `write` says so.
  void backward(Launcher<T>& launch, const LayerWeights<const T>& weights, const RopeTable& rope,
                const LayerContext<T>& context, const MicroBatch& batch, const LayerSaved<T>& saved,
                const LayerScratch<T>& scratch, Matrix<T> residual, const ContextGradient& context_gradient,
                const LayerWeights<float>& weight_gradients, GradientWrite write) const;

 private:
  AttentionShape attention_shape() const;
  ContextIntervals intervals(const MicroBatch& batch) const;

  const DrafterShape& shape_;
  const std::int64_t index_;
};

}  // namespace draftsmith
