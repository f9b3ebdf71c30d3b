#include "bench/step/decoding.h"

#include "bench/step/random_fill.h"
#include "bench/step/recorder.h"
#include "bench/step/workers.h"
#include "tensor/staged.h"

namespace draftsmith::bench {

template <typename T>
DecodingBench<T>::DecodingBench(const Device& device, const Workload& workload, std::int64_t context)
    : shape_(workload.shapes.target),
      capacity_(context + 1),
      target_(shape_, {}),
      launch_(device, recorded_kernels<T>(device)) {
  Carver views;
  lay_out(views);
  launch_.set_mode(LaunchMode::measure);
  token();
  launch_.set_mode(LaunchMode::run);
  Carver measured;
  lay_out(measured);
  arena_ = Arena(device, measured.peak());
  Carver carver = arena_.carver();
  lay_out(carver);
  fill(context);
}

template <typename T>
void DecodingBench<T>::lay_out(Carver& carver) {
  weights_ = carve_target_weights<T>(carver, shape_, shape_.layers);
  rope_ = carve_rope(carver, capacity_, shape_.head_dim);
  store_ = {};
  for (std::int64_t layer = 0; layer < shape_.layers; ++layer) {
    store_.keys.push_back(carver.matrix<T>(capacity_, shape_.kv_width()));
    store_.values.push_back(carver.matrix<T>(capacity_, shape_.kv_width()));
  }
  scratch_ = carve_target_scratch<T>(carver, shape_, 1);
  for (auto* vector : {&token_, &position_, &begin_, &end_, &choice_}) {
    *vector = carver.vector<std::int32_t>(1);
  }
  logits_ = carver.matrix<float>(1, shape_.vocabulary);
  launch_.library().set_scratch(carver.vector<std::byte>(launch_.library().scratch_bytes()));
}

template <typename T>
void DecodingBench<T>::fill(std::int64_t context) {
  const Stream& stream = launch_.stream();
  fill_target_weights(stream, weights_);
  fill_rope(stream, shape_.rope, shape_.head_dim, rope_);
  const RandomTile<T> tile(1);
  for (std::size_t layer = 0; layer < store_.keys.size(); ++layer) {
    tile.fill(stream, store_.keys[layer]);
    tile.fill(stream, store_.values[layer]);
  }
  synchronize(stream);
  const std::int32_t values[] = {7, static_cast<std::int32_t>(context), 0,
                                 static_cast<std::int32_t>(context + 1)};
  const Vector<std::int32_t> inputs[] = {token_, position_, begin_, end_};
  for (int i = 0; i < 4; ++i)
    upload<std::int32_t>(stream, Vector<const std::int32_t>{&values[i], 1}, inputs[i]);
}

template <typename T>
void DecodingBench<T>::token() {
  target_.forward(launch_, weights_, rope_.table(), scratch_,
                  {.tokens = token_,
                   .positions = position_,
                   .intervals = {.begin = begin_, .end = end_},
                   .first_row = capacity_ - 1,
                   .store = &store_,
                   .logits = logits_});
  launch_(ArgmaxRows<T>{.logits = logits_, .predictions = choice_});
}

template <typename T>
std::int64_t DecodingBench<T>::weight_bytes() const {
  const auto size = [](const Matrix<T>& matrix) { return bytes_of(matrix).size; };
  std::int64_t bytes = size(weights_.tables.head);
  for (const TargetLayerWeights<T>& layer : weights_.layers) {
    bytes += size(layer.query_key_value) + size(layer.output) + size(layer.gate_up) + size(layer.down);
  }
  return bytes;
}

template class DecodingBench<float>;
template class DecodingBench<bf16>;

}  // namespace draftsmith::bench
