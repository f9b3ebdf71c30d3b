#include "model/first_layer.h"

#include "model/linear.h"

namespace draftsmith {

template <typename T>
DistinctRows<T> carve_distinct_rows(Carver& carver, const DrafterShape& shape, std::int64_t blocks) {
  const std::int64_t rows = distinct_block_rows(blocks);
  return {.input = carver.matrix<T>(rows, shape.width),
          .inverse_rms = carver.vector<float>(rows),
          .normed = carver.matrix<T>(rows, shape.width),
          .query = carver.matrix<T>(rows, shape.query_width()),
          .key_value = carver.matrix<T>(rows, 2 * shape.kv_width())};
}

template <typename T>
void FirstLayerEntry<T>::forward(Launcher<T>& launch, const LayerWeights<const T>& weights,
                                 const LayerSaved<T>& saved, const DistinctRows<T>& rows) const {
  const std::int64_t block_size = shape_.block_size, blocks = saved.input.rows / block_size;
  const Matrix<T> anchors{saved.input.data, blocks, saved.input.columns, saved.input.stride * block_size};
  launch(CopyRows<T>{.input = anchors, .output = rows.input.slice_rows(0, blocks)});
  for (const std::int64_t row : {blocks, blocks + 1}) {
    launch(CopyRows<T>{.input = saved.input.slice_rows(1, 1), .output = rows.input.slice_rows(row, 1)});
  }
  launch(RmsNormForward<T>{.input = rows.input,
                           .weight = weights.input_norm,
                           .output = rows.normed,
                           .inverse_rms = rows.inverse_rms,
                           .epsilon = shape_.epsilon});
  launch(linear<T>(rows.normed, weights.query, weights.query_bias, rows.query));
  launch(linear<T>(rows.normed, weights.key_value, weights.key_value_bias, rows.key_value));
  launch(SpreadBlockRows<T>{.distinct = rows.query, .block_size = block_size, .output = saved.query});
  launch(SpreadBlockRows<T>{.distinct = rows.key_value, .block_size = block_size, .output = saved.key_value});
}

template <typename T>
void FirstLayerEntry<T>::backward(Launcher<T>& launch, const LayerWeights<const T>& weights,
                                  const LayerScratch<T>& scratch, const DistinctRows<T>& rows,
                                  const DistinctRows<T>& gradients,
                                  const LayerWeights<float>& weight_gradients, GradientWrite write) const {
  const std::int64_t block_size = shape_.block_size;
  launch(FoldBlockRows<T>{.input = scratch.query, .block_size = block_size, .distinct = gradients.query});
  launch(FoldBlockRows<T>{
      .input = scratch.key_value, .block_size = block_size, .distinct = gradients.key_value});
  launch(linear_weight_gradient<T>(gradients.query, rows.normed, weight_gradients.query, write));
  add_bias_gradient<T>(launch, gradients.query, weight_gradients.query_bias);
  launch(linear_weight_gradient<T>(gradients.key_value, rows.normed, weight_gradients.key_value, write));
  add_bias_gradient<T>(launch, gradients.key_value, weight_gradients.key_value_bias);
  launch(linear_input_gradient<T>(gradients.query, weights.query, gradients.normed));
  Matmul<T> from_keys = linear_input_gradient<T>(gradients.key_value, weights.key_value, gradients.normed);
  from_keys.accumulate = true;
  launch(from_keys);
  launch(RmsNormBackward<T>{.sum = rows.input,
                            .weight = weights.input_norm,
                            .inverse_rms = rows.inverse_rms,
                            .grad_output = gradients.normed,
                            .grad_sum = gradients.input,
                            .grad_weight = weight_gradients.input_norm});
}

template DistinctRows<float> carve_distinct_rows(Carver&, const DrafterShape&, std::int64_t);
template DistinctRows<bf16> carve_distinct_rows(Carver&, const DrafterShape&, std::int64_t);
template class FirstLayerEntry<float>;
template class FirstLayerEntry<bf16>;

}  // namespace draftsmith
