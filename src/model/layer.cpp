#include "model/layer.h"

#include <algorithm>
#include <cmath>

#include "model/linear.h"

namespace draftsmith {
template <typename T>
LayerSaved<T> carve_layer_saved(Carver& carver, const DrafterShape& shape, std::int64_t rows,
                                std::int64_t tail_rows) {
  return {.input = carver.matrix<T>(rows, shape.width),
          .input_inverse_rms = carver.vector<float>(rows),
          .normed = carver.matrix<T>(rows, shape.width),
          .query = carver.matrix<T>(rows, shape.query_width()),
          .key_value = carver.matrix<T>(rows, 2 * shape.kv_width()),
          .query_inverse_rms = carver.matrix<float>(rows, shape.query_heads),
          .key_inverse_rms = carver.matrix<float>(rows, shape.kv_heads),
          .rotated_query = carver.matrix<T>(rows, shape.query_width()),
          .rotated_key = carver.matrix<T>(rows, shape.kv_width()),
          .attention = carver.matrix<T>(rows, shape.query_width()),
          .log_sum_exp = carver.matrix<float>(rows, shape.query_heads),
          .tail = carve_tail_rows<T>(carver, shape, tail_rows)};
}

template <typename T>
LayerScratch<T> carve_layer_scratch(Carver& carver, const DrafterShape& shape, std::int64_t rows,
                                    std::int64_t tail_rows) {
  const TailScratch<T> tail = carve_tail_scratch<T>(carver, shape, std::max(rows, tail_rows));
  return {.tail = tail,
          .normed = tail.normed.slice_rows(0, rows),
          .attention = carver.matrix<T>(rows, shape.query_width()),
          .query = carver.matrix<T>(rows, shape.query_width()),
          .key_value = carver.matrix<T>(rows, 2 * shape.kv_width()),
          .delta = carver.matrix<float>(rows, shape.query_heads)};
}

template <typename T>
AttentionShape DrafterLayer<T>::attention_shape() const {
  return {.query_heads = shape_.query_heads,
          .kv_heads = shape_.kv_heads,
          .head_dim = shape_.head_dim,
          .block_size = shape_.block_size,
          .causal_in_block = shape_.sliding(index_) && shape_.causal_in_sliding_layers,
          .scale = 1.0f / std::sqrt(static_cast<float>(shape_.head_dim))};
}

template <typename T>
ContextIntervals DrafterLayer<T>::intervals(const MicroBatch& batch) const {
  return {.begin = shape_.sliding(index_) ? batch.sliding_begin : batch.context_begin,
          .end = batch.context_end};
}

template <typename T>
PrepareAttention<T> DrafterLayer<T>::prepare(const MicroBatch& batch, std::int64_t context_rows,
                                             Vector<std::byte> plan) const {
  return {.shape = attention_shape(),
          .intervals = intervals(batch),
          .context_rows = context_rows,
          .passes = AttentionPasses::forward_and_backward,
          .plan = plan};
}

template <typename T>
void DrafterLayer<T>::attend(Launcher<T>& launch, const LayerWeights<const T>& weights, const RopeTable& rope,
                             const LayerContext<T>& context, const MicroBatch& batch,
                             const LayerSaved<T>& saved) const {
  launch(HeadNormRopeForward<T>{.input = saved.query,
                                .weight = weights.query_norm,
                                .positions = batch.draft_positions,
                                .rope = rope,
                                .output = saved.rotated_query,
                                .inverse_rms = saved.query_inverse_rms,
                                .head_dim = shape_.head_dim,
                                .epsilon = shape_.epsilon});
  launch(HeadNormRopeForward<T>{.input = saved.key_value.slice_columns(0, shape_.kv_width()),
                                .weight = weights.key_norm,
                                .positions = batch.draft_positions,
                                .rope = rope,
                                .output = saved.rotated_key,
                                .inverse_rms = saved.key_inverse_rms,
                                .head_dim = shape_.head_dim,
                                .epsilon = shape_.epsilon});
  launch(
      AttentionForward<T>{.shape = attention_shape(),
                          .intervals = intervals(batch),
                          .plan = context.plan,
                          .query = saved.rotated_query,
                          .context_key = context.keys,
                          .context_value = context.values,
                          .block_key = saved.rotated_key,
                          .block_value = saved.key_value.slice_columns(shape_.kv_width(), shape_.kv_width()),
                          .output = saved.attention,
                          .log_sum_exp = saved.log_sum_exp});
}

template <typename T>
void DrafterLayer<T>::forward(Launcher<T>& launch, const LayerWeights<const T>& weights,
                              const RopeTable& rope, const LayerContext<T>& context, const MicroBatch& batch,
                              const LayerSaved<T>& saved) const {
  attend(launch, weights, rope, context, batch, saved);
  tail_forward<T>(launch, weights, {.attention = saved.attention, .residual = saved.input}, saved.tail,
                  shape_.epsilon);
}

template <typename T>
void DrafterLayer<T>::attend_backward(Launcher<T>& launch, const LayerWeights<const T>& weights,
                                      const RopeTable& rope, const LayerContext<T>& context,
                                      const MicroBatch& batch, const LayerSaved<T>& saved,
                                      const LayerScratch<T>& scratch, const ContextGradient& context_gradient,
                                      const LayerWeights<float>& weight_gradients) const {
  const Matrix<T> grad_key = scratch.key_value.slice_columns(0, shape_.kv_width());
  const Matrix<T> grad_value = scratch.key_value.slice_columns(shape_.kv_width(), shape_.kv_width());
  launch(
      AttentionBackward<T>{.shape = attention_shape(),
                           .intervals = intervals(batch),
                           .plan = context.plan,
                           .query = saved.rotated_query,
                           .context_key = context.keys,
                           .context_value = context.values,
                           .block_key = saved.rotated_key,
                           .block_value = saved.key_value.slice_columns(shape_.kv_width(), shape_.kv_width()),
                           .output = saved.attention,
                           .log_sum_exp = saved.log_sum_exp,
                           .grad_output = scratch.attention,
                           .delta = scratch.delta,
                           .grad_query = scratch.query,
                           .grad_context_key = context_gradient.keys,
                           .grad_context_value = context_gradient.values,
                           .grad_block_key = grad_key,
                           .grad_block_value = grad_value});
  launch(HeadNormRopeBackward<T>{.input = saved.query,
                                 .weight = weights.query_norm,
                                 .inverse_rms = saved.query_inverse_rms,
                                 .positions = batch.draft_positions,
                                 .rope = rope,
                                 .grad_output = scratch.query,
                                 .grad_input = scratch.query,
                                 .grad_weight = weight_gradients.query_norm,
                                 .head_dim = shape_.head_dim});
  launch(HeadNormRopeBackward<T>{.input = saved.key_value.slice_columns(0, shape_.kv_width()),
                                 .weight = weights.key_norm,
                                 .inverse_rms = saved.key_inverse_rms,
                                 .positions = batch.draft_positions,
                                 .rope = rope,
                                 .grad_output = grad_key,
                                 .grad_input = grad_key,
                                 .grad_weight = weight_gradients.key_norm,
                                 .head_dim = shape_.head_dim});
}

template <typename T>
void DrafterLayer<T>::backward(Launcher<T>& launch, const LayerWeights<const T>& weights,
                               const RopeTable& rope, const LayerContext<T>& context, const MicroBatch& batch,
                               const LayerSaved<T>& saved, const LayerScratch<T>& scratch, Matrix<T> residual,
                               const ContextGradient& context_gradient,
                               const LayerWeights<float>& weight_gradients, GradientWrite write) const {
  tail_backward<T>(launch, {.weights = weights,
                            .attention = saved.attention,
                            .rows = saved.tail,
                            .scratch = scratch.tail,
                            .gradients = {.attention = scratch.attention, .residual = residual},
                            .weight_gradients = weight_gradients,
                            .write = write});
  attend_backward(launch, weights, rope, context, batch, saved, scratch, context_gradient, weight_gradients);
}

template LayerSaved<float> carve_layer_saved(Carver&, const DrafterShape&, std::int64_t, std::int64_t);
template LayerSaved<bf16> carve_layer_saved(Carver&, const DrafterShape&, std::int64_t, std::int64_t);
template LayerScratch<float> carve_layer_scratch(Carver&, const DrafterShape&, std::int64_t, std::int64_t);
template LayerScratch<bf16> carve_layer_scratch(Carver&, const DrafterShape&, std::int64_t, std::int64_t);
template class DrafterLayer<float>;
template class DrafterLayer<bf16>;

}  // namespace draftsmith
