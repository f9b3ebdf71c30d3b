#include "model/layer_entry.h"

namespace draftsmith {

template <typename T>
EntryRows<T> carve_entry_rows(Carver& carver, const DrafterShape& shape, std::int64_t rows) {
  return {.input = carver.matrix<T>(rows, shape.width),
          .inverse_rms = carver.vector<float>(rows),
          .normed = carver.matrix<T>(rows, shape.width),
          .query = carver.matrix<T>(rows, shape.query_width()),
          .key_value = carver.matrix<T>(rows, 2 * shape.kv_width())};
}

template <typename T>
void norm_entry(Launcher<T>& launch, const LayerWeights<const T>& weights, const EntryRows<T>& rows,
                float epsilon) {
  launch(RmsNormForward<T>{.input = rows.input,
                           .weight = weights.input_norm,
                           .output = rows.normed,
                           .inverse_rms = rows.inverse_rms,
                           .epsilon = epsilon});
}

template <typename T>
void project_entry(Launcher<T>& launch, const LayerWeights<const T>& weights, const EntryRows<T>& rows) {
  launch(linear<T>(rows.normed, weights.query, weights.query_bias, rows.query));
  launch(linear<T>(rows.normed, weights.key_value, weights.key_value_bias, rows.key_value));
}

template <typename T>
void entry_backward(Launcher<T>& launch, const EntryBackward<T>& pass) {
  const auto& [weights, rows, gradients, grad_residual, weight_gradients, write] = pass;
  launch.await_aside();  // of what reads grad_residual, which may be written below
  launch.aside(linear_weight_gradient<T>(gradients.query, rows.normed, weight_gradients.query, write));
  add_bias_gradient<T>(launch, gradients.query, weight_gradients.query_bias);
  launch.aside(
      linear_weight_gradient<T>(gradients.key_value, rows.normed, weight_gradients.key_value, write));
  add_bias_gradient<T>(launch, gradients.key_value, weight_gradients.key_value_bias);
  launch(linear_input_gradient<T>(gradients.query, weights.query, gradients.normed));
  Matmul<T> from_keys = linear_input_gradient<T>(gradients.key_value, weights.key_value, gradients.normed);
  from_keys.accumulate = true;
  launch(from_keys);
  launch(RmsNormBackward<T>{.sum = rows.input,
                            .weight = weights.input_norm,
                            .inverse_rms = rows.inverse_rms,
                            .grad_output = gradients.normed,
                            .grad_residual = grad_residual,
                            .grad_sum = gradients.input,
                            .grad_weight = weight_gradients.input_norm});
}

template EntryRows<float> carve_entry_rows(Carver&, const DrafterShape&, std::int64_t);
template EntryRows<bf16> carve_entry_rows(Carver&, const DrafterShape&, std::int64_t);
template void norm_entry(Launcher<float>&, const LayerWeights<const float>&, const EntryRows<float>&, float);
template void norm_entry(Launcher<bf16>&, const LayerWeights<const bf16>&, const EntryRows<bf16>&, float);
template void project_entry(Launcher<float>&, const LayerWeights<const float>&, const EntryRows<float>&);
template void project_entry(Launcher<bf16>&, const LayerWeights<const bf16>&, const EntryRows<bf16>&);
template void entry_backward(Launcher<float>&, const EntryBackward<float>&);
template void entry_backward(Launcher<bf16>&, const EntryBackward<bf16>&);

}  // namespace draftsmith
