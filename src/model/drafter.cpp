#include "model/drafter.h"

#include <algorithm>

#include "model/linear.h"

namespace draftsmith {
namespace {

template <typename T>
LayerContext<T> layer_context(const DrafterShape& shape, const DrafterContext<T>& context,
                              std::int64_t layer) {
  const std::int64_t kv = shape.kv_width();
  return {.keys = context.keys.slice_columns(layer * kv, kv),
          .values = context.key_value.slice_columns(layer * 2 * kv + kv, kv),
          .plan = context.plans.empty() ? Vector<std::byte>{} : context.plans[layer]};
}

// The first layer with the window of this one: it has the plan that they share.
std::int64_t first_with_window_of(const DrafterShape& shape, std::int64_t layer) {
  std::int64_t first = 0;
  while (shape.sliding(first) != shape.sliding(layer)) ++first;
  return first;
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
std::vector<Vector<std::byte>> carve_drafter_plans(Carver& carver, const Launcher<T>& launch,
                                                   const DrafterShape& shape, const BatchBudget& budget) {
  Carver sizes;
  const MicroBatch batch = carve_micro_batch(sizes, budget);
  std::vector<Vector<std::byte>> plans;
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    const std::int64_t first = first_with_window_of(shape, layer);
    if (first < layer) {
      plans.push_back(plans[first]);
    } else {
      plans.push_back(carver.vector<std::byte>(launch.attention_plan_bytes(
          DrafterLayer<T>(shape, layer).prepare(batch, budget.context_tokens, {}))));
    }
  }
  return plans;
}

template <typename T>
DrafterActivations<T> carve_drafter_activations(Carver& carver, const DrafterShape& shape,
                                                const BatchBudget& budget, Recompute recompute) {
  const std::int64_t rows = budget.draft_rows(), loss_rows = budget.loss_rows();
  DrafterActivations<T> activations{.context = carve_drafter_context<T>(carver, shape, budget.context_tokens),
                                    .first = carve_distinct_rows<T>(carver, shape, budget.blocks)};
  // Layers that are recomputed take turns with one's memory.
  const bool recomputed = recompute == Recompute::layer;
  const LayerSaved<T> shared =
      recomputed ? carve_layer_saved<T>(carver, shape, rows, std::max(rows, loss_rows)) : LayerSaved<T>{};
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    const std::int64_t tail_rows = layer + 1 == shape.layers ? loss_rows : rows;
    LayerSaved<T> saved = recomputed ? shared : carve_layer_saved<T>(carver, shape, rows, tail_rows);
    if (recomputed && layer > 0) saved.input = carver.matrix<T>(rows, shape.width);
    saved.tail = saved.tail.first(tail_rows);
    activations.layers.push_back(saved);
  }
  activations.last = carve_last_rows<T>(carver, shape, loss_rows);
  return activations;
}

template <typename T>
DrafterGradients<T> carve_drafter_gradients(Carver& carver, const DrafterShape& shape,
                                            const BatchBudget& budget) {
  const std::int64_t rows = budget.draft_rows(), loss_rows = budget.loss_rows(),
                     context = budget.context_tokens;
  return {.output = carver.matrix<T>(loss_rows, shape.width),
          .last_attention = carver.matrix<T>(loss_rows, shape.query_width()),
          .residual = carver.matrix<T>(rows, shape.width),
          .layer = carve_layer_scratch<T>(carver, shape, rows, loss_rows),
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
  if (index > 0) return project_entry(launch, weights.layers[index], saved.entry());
  FirstLayerEntry<T>(shape_).forward(launch, weights.layers[0], saved, activations.first);
}

template <typename T>
void Drafter<T>::prepare_attention(Launcher<T>& launch, const MicroBatch& batch,
                                   const DrafterContext<T>& context) const {
  for (std::int64_t layer = 0; layer < std::ssize(context.plans); ++layer) {
    if (first_with_window_of(shape_, layer) < layer) continue;
    launch(DrafterLayer<T>(shape_, layer).prepare(batch, context.keys.rows, context.plans[layer]));
  }
}

template <typename T>
void Drafter<T>::blocks_forward(Launcher<T>& launch, const DrafterWeights<const T>& weights,
                                const RopeTable& rope, Matrix<const T> embedding, const MicroBatch& batch,
                                const DrafterActivations<T>& activations) const {
  const auto& layers = activations.layers;
  prepare_attention(launch, batch, activations.context);
  launch(GatherRows<T>{.table = embedding, .index = batch.draft_tokens, .output = layers[0].input});
  for (std::int64_t i = 0; i < shape_.layers; ++i) {
    const DrafterLayer<T> layer(shape_, i);
    const LayerContext<T> context = layer_context(shape_, activations.context, i);
    enter_layer(launch, weights, i, activations);
    if (i + 1 == shape_.layers) {
      layer.attend(launch, weights.layers[i], rope, context, batch, layers[i]);
      return LastLayerTail<T>(shape_).forward(launch, weights, batch, layers[i], activations.last);
    }
    layer.forward(launch, weights.layers[i], rope, context, batch, layers[i]);
    launch(RmsNormForward<T>{.input = layers[i].tail.middle,
                             .addend = layers[i].tail.projected,
                             .sum = layers[i + 1].input,
                             .weight = weights.layers[i + 1].input_norm,
                             .output = layers[i + 1].normed,
                             .inverse_rms = layers[i + 1].input_inverse_rms,
                             .epsilon = shape_.epsilon});
  }
}

template <typename T>
void Drafter<T>::backward(Launcher<T>& launch, const DrafterBackward<T>& pass) const {
  for (std::int64_t segment = 0; segment < backward_segments(); ++segment) {
    backward_segment(launch, pass, segment);
  }
}

template <typename T>
void Drafter<T>::backward_segment(Launcher<T>& launch, const DrafterBackward<T>& pass,
                                  std::int64_t segment) const {
  if (segment == shape_.layers) {
    context_backward(launch, pass);
  } else {
    layer_backward(launch, pass, shape_.layers - 1 - segment);
  }
  launch.await_aside();
}

// From the gradient of y to those of the last layer's attention and x.
template <typename T>
void Drafter<T>::last_tail_backward(Launcher<T>& launch, const DrafterBackward<T>& pass) const {
  const DrafterGradients<T>& gradients = pass.gradients;
  LastLayerTail<T>(shape_).backward(
      launch, {.weights = pass.weights,
               .batch = pass.batch,
               .saved = pass.activations.layers.back(),
               .rows = pass.activations.last,
               .scratch = gradients.layer.tail,
               .row_gradients = {.attention = gradients.last_attention, .residual = gradients.output},
               .output_weights = pass.output_weights,
               .gradients = {.attention = gradients.layer.attention, .residual = gradients.residual},
               .weight_gradients = pass.weight_gradients,
               .write = pass.write});
}

template <typename T>
void Drafter<T>::layer_backward(Launcher<T>& launch, const DrafterBackward<T>& pass,
                                std::int64_t index) const {
  const std::int64_t kv = shape_.kv_width();
  const DrafterGradients<T>& gradients = pass.gradients;
  const DrafterLayer<T> layer(shape_, index);
  const LayerContext<T> context = layer_context(shape_, pass.activations.context, index);
  const LayerWeights<const T>& weights = pass.weights.layers[index];
  const LayerSaved<T>& saved = pass.activations.layers[index];
  const bool last = index + 1 == shape_.layers;
  if (recompute_ == Recompute::layer && !last) {  // the last layer's are still there
    if (index > 0) norm_entry(launch, weights, saved.entry(), shape_.epsilon);
    enter_layer(launch, pass.weights, index, pass.activations);
    layer.forward(launch, weights, pass.rope, context, pass.batch, saved);
  }
  const typename DrafterLayer<T>::ContextGradient context_gradient{
      .keys = gradients.keys.slice_columns(index * kv, kv),
      .values = gradients.key_value.slice_columns(index * 2 * kv + kv, kv)};
  const LayerWeights<float>& weight_gradients = pass.weight_gradients.layers[index];
  if (last) {
    last_tail_backward(launch, pass);
    layer.attend_backward(launch, weights, pass.rope, context, pass.batch, saved, gradients.layer,
                          context_gradient, weight_gradients);
  } else {
    layer.backward(launch, weights, pass.rope, context, pass.batch, saved, gradients.layer,
                   gradients.residual, context_gradient, weight_gradients, pass.write);
  }
  if (index > 0) {
    const LayerScratch<T>& scratch = gradients.layer;
    entry_backward<T>(launch, {.weights = weights,
                               .rows = saved.entry(),
                               .gradients = {.input = gradients.residual,
                                             .normed = scratch.normed,
                                             .query = scratch.query,
                                             .key_value = scratch.key_value},
                               .grad_residual = gradients.residual,
                               .weight_gradients = weight_gradients,
                               .write = pass.write});
  } else {
    FirstLayerEntry<T>(shape_).backward(launch, weights, gradients.layer, pass.activations.first,
                                        gradients.first, weight_gradients, pass.write);
  }
}

template <typename T>
void Drafter<T>::context_backward(Launcher<T>& launch, const DrafterBackward<T>& pass) const {
  const std::int64_t kv = shape_.kv_width();
  const DrafterContext<T>& context = pass.activations.context;
  const DrafterGradients<T>& gradients = pass.gradients;
  const DrafterWeights<float>& weight_gradients = pass.weight_gradients;
  for (std::int64_t i = 0; i < shape_.layers; ++i) {
    launch(HeadNormRopeBackward<T>{.input = context.key_value.slice_columns(i * 2 * kv, kv),
                                   .weight = pass.weights.layers[i].key_norm,
                                   .inverse_rms = context.key_inverse_rms[i],
                                   .positions = pass.batch.positions,
                                   .rope = pass.rope,
                                   .grad_output = gradients.keys.slice_columns(i * kv, kv),
                                   .grad_input = gradients.key_value.slice_columns(i * 2 * kv, kv),
                                   .grad_weight = weight_gradients.layers[i].key_norm,
                                   .head_dim = shape_.head_dim});
  }
  // The layers' segments have written theirs.
  launch.aside(linear_weight_gradient<T>(gradients.key_value, context.normed, weight_gradients.all_key_value,
                                         GradientWrite::add));
  add_bias_gradient<T>(launch, gradients.key_value, weight_gradients.all_key_value_bias);
  launch(linear_input_gradient<T>(gradients.key_value, pass.weights.all_key_value, gradients.normed));
  launch(RmsNormBackward<T>{.sum = context.projected,
                            .weight = pass.weights.hidden_norm,
                            .inverse_rms = context.inverse_rms,
                            .grad_output = gradients.normed,
                            .grad_sum = gradients.normed,
                            .grad_weight = weight_gradients.hidden_norm});
  launch(linear_weight_gradient<T>(gradients.normed, pass.features, weight_gradients.fc, pass.write));
}

template DrafterContext<float> carve_drafter_context(Carver&, const DrafterShape&, std::int64_t);
template DrafterContext<bf16> carve_drafter_context(Carver&, const DrafterShape&, std::int64_t);
template std::vector<Vector<std::byte>> carve_drafter_plans(Carver&, const Launcher<float>&,
                                                            const DrafterShape&, const BatchBudget&);
template std::vector<Vector<std::byte>> carve_drafter_plans(Carver&, const Launcher<bf16>&,
                                                            const DrafterShape&, const BatchBudget&);
template DrafterActivations<float> carve_drafter_activations(Carver&, const DrafterShape&, const BatchBudget&,
                                                             Recompute);
template DrafterActivations<bf16> carve_drafter_activations(Carver&, const DrafterShape&, const BatchBudget&,
                                                            Recompute);
template DrafterGradients<float> carve_drafter_gradients(Carver&, const DrafterShape&, const BatchBudget&);
template DrafterGradients<bf16> carve_drafter_gradients(Carver&, const DrafterShape&, const BatchBudget&);
template class Drafter<float>;
template class Drafter<bf16>;

}  // namespace draftsmith
