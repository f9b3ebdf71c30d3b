#include "train/target_worker.h"

#include "device/stream.h"
#include "model/linear.h"
#include "train/rates.h"

namespace draftsmith {
namespace {

// From a slot to a device's memory or back.
template <typename E>
void copy(const Stream& stream, Vector<E> from, Vector<E> to) {
  DRAFTSMITH_CHECK(from.size == to.size, "a slot and a device have the same shapes");
  copy_bytes(stream, to.data, from.data, bytes_of(from).size);
}

}  // namespace

template <typename T>
void TargetWorker<T>::carve(Carver& carver) {
  const std::int64_t rows = shapes_.budget.context_tokens;
  carver.purpose("target weights");
  weights_ = carve_target_weights<T>(carver, shapes_.target, shapes_.target_layers());
  rope_ = carve_rope(carver, shapes_.positions, shapes_.target.head_dim);
  carver.purpose("target activations");
  scratch_ = carve_target_scratch<T>(carver, shapes_.target, rows);
  store_.keys.assign(shapes_.target_layers(), carver.matrix<T>(rows, shapes_.target.kv_width()));
  store_.values.assign(shapes_.target_layers(), carver.matrix<T>(rows, shapes_.target.kv_width()));
  plan_ = carve_target_plan(carver, launch_, shapes_.target, rows);
  carver.purpose("micro-batch");
  for (auto* vector : {&tokens_, &positions_, &begin_, &end_}) *vector = carver.vector<std::int32_t>(rows);
  features_ = carver.matrix<T>(rows, shapes_.drafter.feature_width());
  if (shapes_.loss.distilled()) final_hidden_ = carver.matrix<T>(rows, shapes_.target.width);
  carver.purpose("scratch of launches");
  launch_.library().set_scratch(carver.vector<std::byte>(launch_.library().scratch_bytes()));
}

template <typename T>
void TargetWorker<T>::measure(Preparation preparation, ProductChoices& choices) {
  launch_.measure(preparation, choices, [this] { launch_prefill(); });
}

template <typename T>
void TargetWorker<T>::load(const std::filesystem::path& folder) {
  load_target_weights(launch_.stream(), folder, shapes_.target, weights_);
  fill_rope(launch_.stream(), shapes_.target.rope, shapes_.target.head_dim, rope_);
}

template <typename T>
void TargetWorker<T>::warm_up(Slot& slot) {
  send_tokens(slot);
  launch_prefill();
  receive_features(slot);
  pass_ = Graph::capture(launch_.stream(), [this] { launch_prefill(); });
}

template <typename T>
void TargetWorker<T>::fill(Slot& slot) {
  send_tokens(slot);
  prefill();
  receive_features(slot);
}

template <typename T>
void TargetWorker<T>::send_tokens(const Slot& slot) {
  const Stream& stream = launch_.stream();
  copy(stream, slot.batch.tokens, tokens_);
  copy(stream, slot.batch.positions, positions_);
  copy(stream, slot.batch.document_begin, begin_);
  copy(stream, slot.batch.causal_end, end_);
}

template <typename T>
void TargetWorker<T>::launch_prefill() {
  target_.forward(launch_, weights_, rope_.table(), scratch_,
                  {.tokens = tokens_,
                   .positions = positions_,
                   .intervals = {.begin = begin_, .end = end_},
                   .plan = plan_,
                   .first_row = 0,
                   .store = &store_,
                   .features = features_,
                   .final_hidden = final_hidden_});
}

template <typename T>
void TargetWorker<T>::receive_features(const Slot& slot) {
  const Stream& stream = launch_.stream();
  copy(stream, bytes_of(features_), slot.features);
  copy(stream, bytes_of(final_hidden_), slot.final_hidden);
  synchronize(stream);
}

template <typename T>
double TargetWorker<T>::product_rate() {
  const TargetLayerWeights<T>& layer =
      weights_.layers.front();  // every layer has this product, one of experts too
  return measure_product_rate(launch_, linear<T>(scratch_.normed, layer.query_key_value,
                                                 layer.query_key_value_bias, scratch_.query_key_value));
}

template <typename T>
double TargetWorker<T>::copy_rate(const Slot& slot) {
  const std::int64_t bytes = slot.features.size + slot.final_hidden.size;
  return measure_rate(static_cast<double>(bytes), [&] { receive_features(slot); });
}

template class TargetWorker<float>;
template class TargetWorker<bf16>;

}  // namespace draftsmith
