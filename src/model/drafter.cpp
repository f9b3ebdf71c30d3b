#include "model/drafter.h"

#include "model/linear.h"

namespace draftsmith {
namespace {

template <typename T>
LayerContext<T> layer_context(const DrafterShape& shape, const DrafterContext<T>& context,
                              std::int64_t layer) {
  const std::int64_t kv = shape.kv_width();
  return {.keys = context.keys.slice_columns(layer * kv, kv),
          .values = context.key_value.slice_columns(layer * 2 * kv + kv, kv)};
}

}  // namespace

template <typename T>
DrafterContext<T> carve_drafter_context(Carver& carver, const DrafterShape& shape, std::int64_t rows) {
  DrafterContext<T> context{.projected = carver.matrix<T>(rows, shape.width),
                            .inverse_rms = carver.vector<float>(rows),
                            .normed = carver.matrix<T>(rows, shape.width),
                            .key_value = carver.matrix<T>(rows, shape.layers * 2 * shape.kv_width()),
                            .keys = carver.matrix<T>(rows, shape.layers * shape.kv_width())};
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    context.key_inverse_rms.push_back(carver.matrix<float>(rows, shape.kv_heads));
  }
  return context;
}

template <typename T>
DrafterActivations<T> carve_drafter_activations(Carver& carver, const DrafterShape& shape,
                                                const BatchBudget& budget, Recompute recompute) {
  const std::int64_t rows = budget.draft_rows();
  DrafterActivations<T> activations{.context =
                                        carve_drafter_context<T>(carver, shape, budget.context_tokens)};
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    const bool shares = recompute == Recompute::layer && layer > 0;
    activations.layers.push_back(shares ? activations.layers.front()
                                        : carve_layer_saved<T>(carver, shape, rows));
    if (shares) activations.layers.back().input = carver.matrix<T>(rows, shape.width);
  }
  activations.last_sum = carver.matrix<T>(rows, shape.width);
  activations.last_inverse_rms = carver.vector<float>(rows);
  activations.output = carver.matrix<T>(rows, shape.width);
  return activations;
}

template <typename T>
DrafterGradients<T> carve_drafter_gradients(Carver& carver, const DrafterShape& shape,
                                            const BatchBudget& budget) {
  const std::int64_t rows = budget.draft_rows(), context = budget.context_tokens;
  return {.output = carver.matrix<T>(rows, shape.width),
          .residual = carver.matrix<T>(rows, shape.width),
          .layer = carve_layer_scratch<T>(carver, shape, rows),
          .keys = carver.matrix<T>(context, shape.layers * shape.kv_width()),
          .key_value = carver.matrix<T>(context, shape.layers * 2 * shape.kv_width()),
          .normed = carver.matrix<T>(context, shape.width)};
}

template <typename T>
void Drafter<T>::context_forward(Launcher<T>& launch, const DrafterWeights<const T>& weights,
                                 const RopeTable& rope, Matrix<const T> features,
                                 Vector<const std::int32_t> positions,
                                 const DrafterContext<T>& context) const {
  launch(linear<T>(features, weights.fc, {}, context.projected));
  launch(RmsNormForward<T>{.input = context.projected,
                           .weight = weights.hidden_norm,
                           .output = context.normed,
                           .inverse_rms = context.inverse_rms,
                           .epsilon = shape_.epsilon});
  launch(linear<T>(context.normed, weights.all_key_value, weights.all_key_value_bias, context.key_value));
  const std::int64_t kv = shape_.kv_width();
  for (std::int64_t layer = 0; layer < shape_.layers; ++layer) {
    launch(HeadNormRopeForward<T>{.input = context.key_value.slice_columns(layer * 2 * kv, kv),
                                  .weight = weights.layers[layer].key_norm,
                                  .positions = positions,
                                  .rope = rope,
                                  .output = context.keys.slice_columns(layer * kv, kv),
                                  .inverse_rms = context.key_inverse_rms[layer],
                                  .head_dim = shape_.head_dim,
                                  .epsilon = shape_.epsilon});
  }
}

// The norm at a layer's entry, where no addition is fused with it.
template <typename T>
void Drafter<T>::norm_input(Launcher<T>& launch, const LayerWeights<const T>& weights,
                            const LayerSaved<T>& saved) const {
  launch(RmsNormForward<T>{.input = saved.input,
                           .weight = weights.input_norm,
                           .output = saved.normed,
                           .inverse_rms = saved.input_inverse_rms,
                           .epsilon = shape_.epsilon});
}

template <typename T>
void Drafter<T>::blocks_forward(Launcher<T>& launch, const DrafterWeights<const T>& weights,
                                const RopeTable& rope, Matrix<const T> embedding, const MicroBatch& batch,
                                const DrafterActivations<T>& activations) const {
  const auto& layers = activations.layers;
  launch(GatherRows<T>{.table = embedding, .index = batch.draft_tokens, .output = layers[0].input});
  norm_input(launch, weights.layers[0], layers[0]);
  for (std::int64_t i = 0; i < shape_.layers; ++i) {
    const LayerContext<T> context = layer_context(shape_, activations.context, i);
    DrafterLayer<T>(shape_, i).forward(launch, weights.layers[i], rope, context, batch, layers[i]);
    const bool last = i + 1 == shape_.layers;
    launch(RmsNormForward<T>{
        .input = layers[i].middle,
        .addend = layers[i].projected,
        .sum = last ? activations.last_sum : layers[i + 1].input,
        .weight = last ? weights.norm : weights.layers[i + 1].input_norm,
        .output = last ? activations.output : layers[i + 1].normed,
        .inverse_rms = last ? activations.last_inverse_rms : layers[i + 1].input_inverse_rms,
        .epsilon = shape_.epsilon});
  }
}

template <typename T>
void Drafter<T>::backward(Launcher<T>& launch, const DrafterWeights<const T>& weights, const RopeTable& rope,
                          Matrix<const T> features, const MicroBatch& batch,
                          const DrafterActivations<T>& activations, const DrafterGradients<T>& gradients,
                          const DrafterWeights<float>& weight_gradients) const {
  launch(RmsNormBackward<T>{.sum = activations.last_sum,
                            .weight = weights.norm,
                            .inverse_rms = activations.last_inverse_rms,
                            .grad_output = gradients.output,
                            .grad_sum = gradients.residual,
                            .grad_weight = weight_gradients.norm});
  const std::int64_t kv = shape_.kv_width();
  for (std::int64_t i = shape_.layers - 1; i >= 0; --i) {
    const DrafterLayer<T> layer(shape_, i);
    const LayerContext<T> context = layer_context(shape_, activations.context, i);
    const LayerSaved<T>& saved = activations.layers[i];
    if (recompute_ == Recompute::layer && i + 1 < shape_.layers) {  // the last layer's are still there
      norm_input(launch, weights.layers[i], saved);
      layer.forward(launch, weights.layers[i], rope, context, batch, saved);
    }
    const typename DrafterLayer<T>::ContextGradient context_gradient{
        .keys = gradients.keys.slice_columns(i * kv, kv),
        .values = gradients.key_value.slice_columns(i * 2 * kv + kv, kv)};
    layer.backward(launch, weights.layers[i], rope, context, batch, saved, gradients.layer,
                   gradients.residual, context_gradient, weight_gradients.layers[i]);
  }
  context_backward(launch, weights, rope, features, batch, activations.context, gradients, weight_gradients);
}

template <typename T>
void Drafter<T>::context_backward(Launcher<T>& launch, const DrafterWeights<const T>& weights,
                                  const RopeTable& rope, Matrix<const T> features, const MicroBatch& batch,
                                  const DrafterContext<T>& context, const DrafterGradients<T>& gradients,
                                  const DrafterWeights<float>& weight_gradients) const {
  const std::int64_t kv = shape_.kv_width();
  for (std::int64_t i = 0; i < shape_.layers; ++i) {
    launch(HeadNormRopeBackward<T>{.input = context.key_value.slice_columns(i * 2 * kv, kv),
                                   .weight = weights.layers[i].key_norm,
                                   .inverse_rms = context.key_inverse_rms[i],
                                   .positions = batch.positions,
                                   .rope = rope,
                                   .grad_output = gradients.keys.slice_columns(i * kv, kv),
                                   .grad_input = gradients.key_value.slice_columns(i * 2 * kv, kv),
                                   .grad_weight = weight_gradients.layers[i].key_norm,
                                   .head_dim = shape_.head_dim});
  }
  launch(linear_weight_gradient<T>(gradients.key_value, context.normed, weight_gradients.all_key_value));
  add_bias_gradient<T>(launch, gradients.key_value, weight_gradients.all_key_value_bias);
  launch(linear_input_gradient<T>(gradients.key_value, weights.all_key_value, gradients.normed));
  launch(RmsNormBackward<T>{.sum = context.projected,
                            .weight = weights.hidden_norm,
                            .inverse_rms = context.inverse_rms,
                            .grad_output = gradients.normed,
                            .grad_sum = gradients.normed,
                            .grad_weight = weight_gradients.hidden_norm});
  launch(linear_weight_gradient<T>(gradients.normed, features, weight_gradients.fc));
}

template DrafterContext<float> carve_drafter_context(Carver&, const DrafterShape&, std::int64_t);
template DrafterContext<bf16> carve_drafter_context(Carver&, const DrafterShape&, std::int64_t);
template DrafterActivations<float> carve_drafter_activations(Carver&, const DrafterShape&, const BatchBudget&,
                                                             Recompute);
template DrafterActivations<bf16> carve_drafter_activations(Carver&, const DrafterShape&, const BatchBudget&,
                                                            Recompute);
template DrafterGradients<float> carve_drafter_gradients(Carver&, const DrafterShape&, const BatchBudget&);
template DrafterGradients<bf16> carve_drafter_gradients(Carver&, const DrafterShape&, const BatchBudget&);
template class Drafter<float>;
template class Drafter<bf16>;

}  // namespace draftsmith
