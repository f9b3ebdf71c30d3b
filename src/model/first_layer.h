// The entry of the first layer. Its input is the embedding of the draft tokens, and all slots of all blocks
// but the first of each are the mask token: `blocks` + 1 rows are distinct (kernels/block_rows.h), so the
// norm and the products of q, k and v are of these rows only and then spread over the blocks. Backward folds
// the gradients first. The embedding is frozen, so the input gets no gradient.
// At Qwen3-8B's shapes this saves 15/16 of 2.6 % of a layer's work, forward and backward.
#pragma once

#include "kernels/launcher.h"
#include "model/layer.h"
#include "model/micro_batch.h"
#include "model/shape.h"
#include "model/weights.h"

namespace draftsmith {

// Rows as in kernels/block_rows.h: the first slot of each block, and the mask token twice.
template <typename T>
struct DistinctRows {
  Matrix<T> input;            // [blocks + 2, width]
  Vector<float> inverse_rms;  // [blocks + 2]
  Matrix<T> normed;           // [blocks + 2, width]
  Matrix<T> query;            // [blocks + 2, query_width]
  Matrix<T> key_value;        // [blocks + 2, 2 * kv_width]
};
template <typename T>
DistinctRows<T> carve_distinct_rows(Carver& carver, const DrafterShape& shape, std::int64_t blocks);

template <typename T>
class FirstLayerEntry {
 public:
  explicit FirstLayerEntry(const DrafterShape& shape) : shape_(shape) {}

  // saved.input -> saved.query and saved.key_value. Slots 1 and up of every block hold the same row.
  void forward(Launcher<T>& launch, const LayerWeights<const T>& weights, const LayerSaved<T>& saved,
               const DistinctRows<T>& rows) const;

  // From scratch.query and scratch.key_value to weight gradients, which are added to, but for those of matrices
  // when `write` says so. `gradients` are of
  // `rows`; all but inverse_rms are written.
  void backward(Launcher<T>& launch, const LayerWeights<const T>& weights, const LayerScratch<T>& scratch,
                const DistinctRows<T>& rows, const DistinctRows<T>& gradients,
                const LayerWeights<float>& weight_gradients, GradientWrite write) const;

 private:
  const DrafterShape& shape_;
};

}  // namespace draftsmith
