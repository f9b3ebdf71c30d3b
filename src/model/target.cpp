#include "model/target.h"

#include <cmath>

#include "model/linear.h"

namespace draftsmith {

template <typename T>
TargetScratch<T> carve_target_scratch(Carver& carver, const TargetShape& shape, std::int64_t rows) {
  const std::int64_t intermediate = shape.any_dense() ? shape.intermediate : 0;
  return {.residual = carver.matrix<T>(rows, shape.width),
          .normed = carver.matrix<T>(rows, shape.width),
          .query_key_value = carver.matrix<T>(rows, shape.query_width() + 2 * shape.kv_width()),
          .attention = carver.matrix<T>(rows, shape.query_width()),
          .projected = carver.matrix<T>(rows, shape.width),
          .gate_up = carver.matrix<T>(rows, 2 * intermediate),
          .activated = carver.matrix<T>(rows, intermediate),
          .experts = carve_expert_scratch<T>(carver, shape, rows)};
}

namespace {

// The views of a scratch that a pass of `rows` rows uses.
template <typename T>
TargetScratch<T> first_rows(const TargetScratch<T>& scratch, std::int64_t rows) {
  return {.residual = scratch.residual.slice_rows(0, rows),
          .normed = scratch.normed.slice_rows(0, rows),
          .query_key_value = scratch.query_key_value.slice_rows(0, rows),
          .attention = scratch.attention.slice_rows(0, rows),
          .projected = scratch.projected.slice_rows(0, rows),
          .gate_up = scratch.gate_up.slice_rows(0, rows),
          .activated = scratch.activated.slice_rows(0, rows),
          .experts = scratch.experts};
}

template <typename T>
bool wants_final(const TargetPass<T>& pass) {
  return pass.logits.rows > 0 || pass.final_hidden.rows > 0;
}

template <typename T>
void check_pass(const TargetPass<T>& pass) {
  const std::int64_t rows = pass.tokens.size;
  DRAFTSMITH_CHECK(
      pass.positions.size == rows && pass.intervals.begin.size == rows && pass.intervals.end.size == rows,
      "every row of a pass has a token, a position and an interval");
  for (const std::int64_t output : {pass.features.rows, pass.logits.rows, pass.final_hidden.rows}) {
    DRAFTSMITH_CHECK(output == 0 || output == rows, "an output that is asked for has every row");
  }
}

AttentionShape attention_shape(const TargetShape& shape) {
  return {.query_heads = shape.query_heads,
          .kv_heads = shape.kv_heads,
          .head_dim = shape.head_dim,
          .scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim))};
}

}  // namespace

template <typename T>
Vector<std::byte> carve_target_plan(Carver& carver, const Launcher<T>& launch, const TargetShape& shape,
                                    std::int64_t rows) {
  return carver.vector<std::byte>(
      launch.attention_plan_bytes({.shape = attention_shape(shape),
                                   .intervals = {.begin = {nullptr, rows}, .end = {nullptr, rows}},
                                   .context_rows = rows,
                                   .passes = AttentionPasses::forward,
                                   .plan = {}}));
}

// The residual lies in scratch, or in the columns of `features` where the last layer was tapped: the addition
// that completes a layer's output writes it there, so a tap costs no copy.
template <typename T>
void Target<T>::forward(Launcher<T>& launch, const TargetWeights<T>& weights, const RopeTable& rope,
                        const TargetScratch<T>& whole_scratch, const TargetPass<T>& pass) const {
  check_pass(pass);
  const TargetScratch<T> scratch = first_rows(whole_scratch, pass.tokens.size);
  const std::int64_t taps = pass.features.rows > 0 ? static_cast<std::int64_t>(taps_.size()) : 0;
  const std::int64_t layers = wants_final(pass) ? shape_.layers : (taps > 0 ? taps_[taps - 1] + 1 : 0);
  DRAFTSMITH_CHECK(layers <= static_cast<std::int64_t>(weights.layers.size()),
                   "the weights hold every layer that the outputs need");

  if (pass.plan.size > 0) {
    launch(PrepareAttention<T>{.shape = attention_shape(shape_),
                               .intervals = pass.intervals,
                               .context_rows = pass.store->keys.front().rows,
                               .passes = AttentionPasses::forward,
                               .plan = pass.plan});
  }
  launch(GatherRows<T>{.table = weights.tables.embedding, .index = pass.tokens, .output = scratch.residual});
  Matrix<T> residual = scratch.residual;
  Matrix<const T> addend;
  std::int64_t tap = 0;
  for (std::int64_t index = 0; index < layers; ++index) {
    const TargetLayerWeights<T>& layer = weights.layers[index];
    Matrix<T> sum = scratch.residual;
    if (tap < taps && taps_[tap] + 1 == index) {
      sum = pass.features.slice_columns(tap++ * shape_.width, shape_.width);
    }
    launch(RmsNormForward<T>{.input = residual,
                             .addend = addend,
                             .sum = sum,
                             .weight = layer.input_norm,
                             .output = scratch.normed,
                             .epsilon = shape_.epsilon});
    if (index > 0) residual = sum;
    attention(launch, layer, rope, scratch, pass, index);
    launch(RmsNormForward<T>{.input = residual,
                             .addend = scratch.projected,
                             .sum = scratch.residual,
                             .weight = layer.post_attention_norm,
                             .output = scratch.normed,
                             .epsilon = shape_.epsilon});
    residual = scratch.residual;
    feed_forward(launch, layer, scratch);
    addend = scratch.projected;
  }
  if (layers == 0) return;

  // The last addition. Without logits only the sum is wanted: it is the last tap, and its norm means nothing.
  const bool final = wants_final(pass);
  const Matrix<T> sum =
      final ? scratch.residual : pass.features.slice_columns(tap * shape_.width, shape_.width);
  const Matrix<T> hidden = pass.final_hidden.rows > 0 ? pass.final_hidden : scratch.normed;
  launch(RmsNormForward<T>{.input = residual,
                           .addend = addend,
                           .sum = sum,
                           .weight = weights.norm,
                           .output = hidden,
                           .epsilon = shape_.epsilon});
  if (pass.logits.rows > 0) {
    launch(Matmul<T, float>{.left = hidden, .right = weights.tables.head, .output = pass.logits});
  }
}

// normed -> projected, the addend of the next norm.
template <typename T>
void Target<T>::attention(Launcher<T>& launch, const TargetLayerWeights<T>& layer, const RopeTable& rope,
                          const TargetScratch<T>& scratch, const TargetPass<T>& pass,
                          std::int64_t index) const {
  const std::int64_t rows = pass.tokens.size;
  const Matrix<T> query = scratch.query_key_value.slice_columns(0, shape_.query_width());
  const Matrix<T> key = scratch.query_key_value.slice_columns(shape_.query_width(), shape_.kv_width());
  const Matrix<T> value =
      scratch.query_key_value.slice_columns(shape_.query_width() + shape_.kv_width(), shape_.kv_width());
  const Matrix<T> store_key = pass.store->keys[index], store_value = pass.store->values[index];

  launch(
      linear<T>(scratch.normed, layer.query_key_value, layer.query_key_value_bias, scratch.query_key_value));
  HeadNormRopeForward<T> rotate{.input = query,
                                .weight = layer.query_norm,
                                .positions = pass.positions,
                                .rope = rope,
                                .output = query,
                                .head_dim = shape_.head_dim,
                                .epsilon = shape_.epsilon};
  launch(rotate);
  rotate.input = key;
  rotate.weight = layer.key_norm;
  rotate.output = store_key.slice_rows(pass.first_row, rows);
  launch(rotate);
  launch(CopyRows<T>{.input = value, .output = store_value.slice_rows(pass.first_row, rows)});
  launch(AttentionForward<T>{.shape = attention_shape(shape_),
                             .intervals = pass.intervals,
                             .plan = pass.plan,
                             .query = query,
                             .context_key = store_key,
                             .context_value = store_value,
                             .output = scratch.attention});
  launch(linear<T>(scratch.attention, layer.output, layer.output_bias, scratch.projected));
}

// normed -> projected, the addend of the next norm.
template <typename T>
void Target<T>::feed_forward(Launcher<T>& launch, const TargetLayerWeights<T>& layer,
                             const TargetScratch<T>& scratch) const {
  if (layer.experts.router.rows > 0) {
    return experts_forward<T>(launch, shape_.experts, layer.experts, scratch.experts, scratch.normed,
                              scratch.projected);
  }
  launch(linear<T>(scratch.normed, layer.gate_up, {}, scratch.gate_up));
  launch(SwigluForward<T>{.gate_up = scratch.gate_up, .output = scratch.activated});
  launch(linear<T>(scratch.activated, layer.down, {}, scratch.projected));
}

template TargetScratch<float> carve_target_scratch<float>(Carver&, const TargetShape&, std::int64_t);
template TargetScratch<bf16> carve_target_scratch<bf16>(Carver&, const TargetShape&, std::int64_t);
template Vector<std::byte> carve_target_plan(Carver&, const Launcher<float>&, const TargetShape&,
                                             std::int64_t);
template Vector<std::byte> carve_target_plan(Carver&, const Launcher<bf16>&, const TargetShape&,
                                             std::int64_t);
template class Target<float>;
template class Target<bf16>;

}  // namespace draftsmith
