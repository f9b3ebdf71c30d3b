#include "model/layer_tail.h"

namespace draftsmith {

template <typename T>
TailRows<T> TailRows<T>::first(std::int64_t rows) const {
  return {.middle = middle.slice_rows(0, rows),
          .inverse_rms = inverse_rms.slice(0, rows),
          .normed = normed.slice_rows(0, rows),
          .gate_up = gate_up.slice_rows(0, rows),
          .activated = activated.slice_rows(0, rows),
          .projected = projected.slice_rows(0, rows)};
}

template <typename T>
TailRows<T> carve_tail_rows(Carver& carver, const DrafterShape& shape, std::int64_t rows) {
  return {.middle = carver.matrix<T>(rows, shape.width),
          .inverse_rms = carver.vector<float>(rows),
          .normed = carver.matrix<T>(rows, shape.width),
          .gate_up = carver.matrix<T>(rows, 2 * shape.intermediate),
          .activated = carver.matrix<T>(rows, shape.intermediate),
          .projected = carver.matrix<T>(rows, shape.width)};
}

template <typename T>
TailScratch<T> carve_tail_scratch(Carver& carver, const DrafterShape& shape, std::int64_t rows) {
  return {.activated = carver.matrix<T>(rows, shape.intermediate),
          .gate_up = carver.matrix<T>(rows, 2 * shape.intermediate),
          .normed = carver.matrix<T>(rows, shape.width)};
}

template <typename T>
void tail_forward(Launcher<T>& launch, const LayerWeights<const T>& weights, const TailInput<T>& input,
                  const TailRows<T>& rows, float epsilon) {
  launch(linear<T>(input.attention, weights.output, weights.output_bias, rows.projected));
  launch(RmsNormForward<T>{.input = input.residual,
                           .addend = rows.projected,
                           .sum = rows.middle,
                           .weight = weights.post_attention_norm,
                           .output = rows.normed,
                           .inverse_rms = rows.inverse_rms,
                           .epsilon = epsilon});
  launch(linear<T>(rows.normed, weights.gate_up, {}, rows.gate_up));
  launch(SwigluForward<T>{.gate_up = rows.gate_up, .output = rows.activated});
  launch(linear<T>(rows.activated, weights.down, {}, rows.projected));
}

template <typename T>
void tail_backward(Launcher<T>& launch, const TailBackward<T>& pass) {
  const auto& [weights, attention, rows, scratch, gradients, weight_gradients, write] = pass;
  const std::int64_t count = attention.rows;
  const Matrix<T> residual = gradients.residual;
  const Matrix<T> activated = scratch.activated.slice_rows(0, count);
  const Matrix<T> gate_up = scratch.gate_up.slice_rows(0, count);
  const Matrix<T> normed = scratch.normed.slice_rows(0, count);
  launch.aside(linear_weight_gradient<T>(residual, rows.activated, weight_gradients.down, write));
  launch(linear_input_gradient<T>(residual, weights.down, activated));
  launch(SwigluBackward<T>{.gate_up = rows.gate_up, .grad_output = activated, .grad_gate_up = gate_up});
  launch(linear_input_gradient<T>(gate_up, weights.gate_up, normed));
  launch.await_aside();  // of what reads residual, which is written now
  launch(RmsNormBackward<T>{.sum = rows.middle,
                            .weight = weights.post_attention_norm,
                            .inverse_rms = rows.inverse_rms,
                            .grad_output = normed,
                            .grad_residual = residual,
                            .grad_sum = residual,
                            .grad_weight = weight_gradients.post_attention_norm});
  launch.aside(linear_weight_gradient<T>(gate_up, rows.normed, weight_gradients.gate_up, write));
  launch.aside(linear_weight_gradient<T>(residual, attention, weight_gradients.output, write));
  add_bias_gradient<T>(launch, residual, weight_gradients.output_bias);
  launch(linear_input_gradient<T>(residual, weights.output, gradients.attention));
}

template struct TailRows<float>;
template struct TailRows<bf16>;
template TailRows<float> carve_tail_rows(Carver&, const DrafterShape&, std::int64_t);
template TailRows<bf16> carve_tail_rows(Carver&, const DrafterShape&, std::int64_t);
template TailScratch<float> carve_tail_scratch(Carver&, const DrafterShape&, std::int64_t);
template TailScratch<bf16> carve_tail_scratch(Carver&, const DrafterShape&, std::int64_t);
template void tail_forward(Launcher<float>&, const LayerWeights<const float>&, const TailInput<float>&,
                           const TailRows<float>&, float);
template void tail_forward(Launcher<bf16>&, const LayerWeights<const bf16>&, const TailInput<bf16>&,
                           const TailRows<bf16>&, float);
template void tail_backward(Launcher<float>&, const TailBackward<float>&);
template void tail_backward(Launcher<bf16>&, const TailBackward<bf16>&);

}  // namespace draftsmith
