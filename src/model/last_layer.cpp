#include "model/last_layer.h"

namespace draftsmith {

template <typename T>
LastRows<T> carve_last_rows(Carver& carver, const DrafterShape& shape, std::int64_t loss_rows) {
  return {.attention = carver.matrix<T>(loss_rows, shape.query_width()),
          .sum = carver.matrix<T>(loss_rows, shape.width),
          .inverse_rms = carver.vector<float>(loss_rows),
          .output = carver.matrix<T>(loss_rows, shape.width)};
}

// x is gathered into the place of m, which is then made of it.
template <typename T>
void LastLayerTail<T>::forward(Launcher<T>& launch, const DrafterWeights<const T>& weights,
                               const MicroBatch& batch, const LayerSaved<T>& saved,
                               const LastRows<T>& rows) const {
  const TailRows<T>& tail = saved.tail;
  launch(GatherRows<T>{.table = saved.attention, .index = batch.loss_index, .output = rows.attention});
  launch(GatherRows<T>{.table = saved.input, .index = batch.loss_index, .output = tail.middle});
  tail_forward<T>(launch, weights.layers.back(), {.attention = rows.attention, .residual = tail.middle}, tail,
                  shape_.epsilon);
  launch(RmsNormForward<T>{.input = tail.middle,
                           .addend = tail.projected,
                           .sum = rows.sum,
                           .weight = weights.norm,
                           .output = rows.output,
                           .inverse_rms = rows.inverse_rms,
                           .epsilon = shape_.epsilon});
}

template <typename T>
void LastLayerTail<T>::backward(Launcher<T>& launch, const LastLayerBackward<T>& pass) const {
  const auto& [attention, residual] = pass.row_gradients;
  launch(RmsNormBackward<T>{.sum = pass.rows.sum,
                            .weight = pass.weights.norm,
                            .inverse_rms = pass.rows.inverse_rms,
                            .grad_output = residual,
                            .row_weights = pass.output_weights,
                            .grad_sum = residual,
                            .grad_weight = pass.weight_gradients.norm});
  tail_backward<T>(launch, {.weights = pass.weights.layers.back(),
                            .attention = pass.rows.attention,
                            .rows = pass.saved.tail,
                            .scratch = pass.scratch,
                            .gradients = pass.row_gradients,
                            .weight_gradients = pass.weight_gradients.layers.back(),
                            .write = pass.write});
  const Vector<const std::int32_t> rows = pass.batch.draft_loss_rows;
  launch(GatherRows<T>{.table = attention, .index = rows, .output = pass.gradients.attention});
  launch(GatherRows<T>{.table = residual, .index = rows, .output = pass.gradients.residual});
}

template LastRows<float> carve_last_rows(Carver&, const DrafterShape&, std::int64_t);
template LastRows<bf16> carve_last_rows(Carver&, const DrafterShape&, std::int64_t);
template class LastLayerTail<float>;
template class LastLayerTail<bf16>;

}  // namespace draftsmith
