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
  DrafterActivations<T> activations{.context = carve_drafter_context<T>(carver, shape, budget.context_tokens),
                                    .first = carve_distinct_rows<T>(carver, shape, budget.blocks)};
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
          .first = carve_distinct_rows<T>(carver, shape, budget.blocks),
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

// The products at a layer's entry, from its normed input; the first layer norms its own.
template <typename T>
void Drafter<T>::enter_layer(Launcher<T>& launch, const DrafterWeights<const T>& weights, std::int64_t index,
                             const DrafterActivations<T>& activations) const {
  const LayerSaved<T>& saved = activations.layers[index];
  if (index > 0) return DrafterLayer<T>(shape_, index).project(launch, weights.layers[index], saved);
  FirstLayerEntry<T>(shape_).forward(launch, weights.layers[0], saved, activations.first);
}

template <typename T>
void Drafter<T>::blocks_forward(Launcher<T>& launch, const DrafterWeights<const T>& weights,
                                const RopeTable& rope, Matrix<const T> embedding, const MicroBatch& batch,
                                const DrafterActivations<T>& activations) const {
  const auto& layers = activations.layers;
  launch(GatherRows<T>{.table = embedding, .index = batch.draft_tokens, .output = layers[0].input});
  for (std::int64_t i = 0; i < shape_.layers; ++i) {
    const LayerContext<T> context = layer_context(shape_, activations.context, i);
    enter_layer(launch, weights, i, activations);
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
      if (i > 0) {
        launch(RmsNormForward<T>{.input = saved.input,
                                 .weight = weights.layers[i].input_norm,
                                 .output = saved.normed,
                                 .inverse_rms = saved.input_inverse_rms,
                                 .epsilon = shape_.epsilon});
      }
      enter_layer(launch, weights, i, activations);
      layer.forward(launch, weights.layers[i], rope, context, batch, saved);
    }
    const typename DrafterLayer<T>::ContextGradient context_gradient{
        .keys = gradients.keys.slice_columns(i * kv, kv),
        .values = gradients.key_value.slice_columns(i * 2 * kv + kv, kv)};
    layer.backward(launch, weights.layers[i], rope, context, batch, saved, gradients.layer,
                   gradients.residual, context_gradient, weight_gradients.layers[i]);
    if (i > 0) {
      layer.project_backward(launch, weights.layers[i], saved, gradients.layer, gradients.residual,
                             weight_gradients.layers[i]);
    } else {
      FirstLayerEntry<T>(shape_).backward(launch, weights.layers[0], gradients.layer, activations.first,
                                          gradients.first, weight_gradients.layers[0]);
    }
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
