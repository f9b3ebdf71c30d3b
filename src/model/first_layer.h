// The entry of the first layer. Its input is the embedding of the draft tokens, and all slots of all blocks
// but the first of each are the mask token: `blocks` + 1 rows are distinct (kernels/block_rows.h), so the
// norm and the products of q, k and v are of these rows only and then spread over the blocks. Backward folds
// the gradients first. The embedding is frozen, so the input gets no gradient.
// At Qwen3-8B's shapes this saves 15/16 of 2.6 % of a layer's work, forward and backward.
#pragma once

#include "kernels/launcher.h"
#include "model/layer.h"
#include "model/layer_entry.h"
#include "model/micro_batch.h"
#include "model/shape.h"
#include "model/weights.h"

namespace draftsmith {

// The distinct rows, as in kernels/block_rows.h: the first slot of each block, and the mask token twice.
template <typename T>
EntryRows<T> carve_distinct_rows(Carver& carver, const DrafterShape& shape, std::int64_t blocks) {
  return carve_entry_rows<T>(carver, shape, distinct_block_rows(blocks));
}

template <typename T>
class FirstLayerEntry {
 public:
  explicit FirstLayerEntry(const DrafterShape& shape) : shape_(shape) {}

  // saved.input -> saved.query and saved.key_value. Slots 1 and up of every block hold the same row.
  void forward(Launcher<T>& launch, const LayerWeights<const T>& weights, const LayerSaved<T>& saved,
               const EntryRows<T>& rows) const;

  // From scratch.query and scratch.key_value to weight gradients, which are added to, but for those of matrices when
  // `write` says so. `gradients` are of `rows` and written.
  void backward(Launcher<T>& launch, const LayerWeights<const T>& weights, const LayerScratch<T>& scratch,
                const EntryRows<T>& rows, const EntryRows<T>& gradients,
                const LayerWeights<float>& weight_gradients, GradientWrite write) const;

 private:
  const DrafterShape& shape_;
};

}  // namespace draftsmith
