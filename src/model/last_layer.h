// The end of the last layer and the final norm. Behind the last attention a slot feeds nothing but its own row of the
// head, and slot 0, unsupervised slots and unused blocks have none. So the attention's output and x are gathered into
// the rows of the loss (MicroBatch::loss_index), in the head's order, and the tail and the norm run on these only.
// Rows of the loss that no slot uses hold zeros, which stay finite, and get no gradient. Backward brings the gradients
// back to the slots by the inverse index; slots without a row get 0.
// At block 16 this saves 1/16 of the last layer's output projection and feed-forward, forward and backward.
#pragma once

#include "kernels/launcher.h"
#include "model/layer.h"
#include "model/micro_batch.h"
#include "model/shape.h"
#include "model/weights.h"

namespace draftsmith {

// What it leaves beside the layer's own tail.
template <typename T>
struct LastRows {
  Matrix<T> attention;        // [loss_rows, query_width]
  Matrix<T> sum;              // [loss_rows, width]: x after the last layer
  Vector<float> inverse_rms;  // [loss_rows]
  Matrix<T> output;           // [loss_rows, width]: y, the drafter's output
};
template <typename T>
LastRows<T> carve_last_rows(Carver& carver, const DrafterShape& shape, std::int64_t loss_rows);

template <typename T>
struct LastLayerBackward {
  const DrafterWeights<const T>& weights;
  const MicroBatch& batch;
  const LayerSaved<T>& saved;
  const LastRows<T>& rows;
  const TailScratch<T>& scratch;
  // Of the rows of the loss. residual: on entry the gradient of y, which counts output_weights times, on return that of x.
  // attention is written.
  TailInput<T> row_gradients;
  Vector<const float> output_weights;  // [loss_rows]
  TailInput<T> gradients;              // of the draft rows, written
  const DrafterWeights<float>& weight_gradients;
  GradientWrite write;
};

template <typename T>
class LastLayerTail {
 public:
  explicit LastLayerTail(const DrafterShape& shape) : shape_(shape) {}

  // From saved.attention and saved.input, of the draft rows, to rows.output. saved.tail has the rows of the loss.
  void forward(Launcher<T>& launch, const DrafterWeights<const T>& weights, const MicroBatch& batch,
               const LayerSaved<T>& saved, const LastRows<T>& rows) const;

  void backward(Launcher<T>& launch, const LastLayerBackward<T>& pass) const;

 private:
  const DrafterShape& shape_;
};

}  // namespace draftsmith
