#include "bench/step/workers.h"

#include "bench/step/random_fill.h"
#include "bench/step/recorder.h"
#include "bench/step/timing.h"

namespace draftsmith::bench {
namespace {

constexpr float kWeightDeviation = 0.02f;

SlotShape slot_shape(const RunShapes& shapes, std::int64_t element_bytes) {
  return {.budget = shapes.budget,
          .feature_row_bytes = shapes.drafter.feature_width() * element_bytes,
          .final_hidden_row_bytes = shapes.teacher_width() * element_bytes};
}

DeviceMemory memory_of(const Carver& measured) {
  return {.arena_bytes = measured.peak(), .by_purpose = measured.bytes_by_purpose()};
}

template <typename T>
Vector<T> elements(Vector<std::byte> bytes) {
  return {reinterpret_cast<T*>(bytes.data), bytes.size / static_cast<std::int64_t>(sizeof(T))};
}

}  // namespace

PackedSlot::PackedSlot(const Workload& workload, MaskKind mask, std::int64_t element_bytes) {
  const SlotShape shape = slot_shape(workload.shapes, element_bytes);
  Carver count;
  carve_slot(count, count, shape);
  memory_ = Buffer::pinned(count.peak());
  Carver carver(memory_.data(), memory_.bytes());
  slot_ = carve_slot(carver, carver, shape);
  fill_documents(workload, mask, slot_);
}

template <typename T>
DrafterBench<T>::DrafterBench(const Device& device, const Workload& workload, MaskKind mask)
    : workload_(workload),
      device_(device),
      worker_(device, recorded_kernels<T>(device), {.shapes = workload.shapes, .optimizer = {}, .seed = 1}),
      slot_(workload, mask, sizeof(T)) {
  allocate();
  fill();
  const Stopwatch first(device);
  worker_.warm_up(slot_.slot());
  set_up_.first_s = first.seconds();
}

template <typename T>
void DrafterBench<T>::lay_out(Carver& carver, Carver& shared) {
  carver.purpose("vocabulary tables");
  tables_ = carve_vocabulary_tables<T>(carver, workload_.shapes.target);
  worker_.carve(carver, shared, &tables_);
}

template <typename T>
void DrafterBench<T>::allocate() {
  const Stopwatch preparing(device_);
  Carver views, shared_views;
  lay_out(views, shared_views);
  ProductChoices choices;
  worker_.measure(Preparation::products, choices);
  Carver measured, measured_shared;
  lay_out(measured, measured_shared);
  set_up_.prepare_s = preparing.seconds();
  const Stopwatch allocating(device_);
  arena_ = Arena(device_, measured.peak());
  shared_ = Buffer::pinned(measured_shared.peak());
  set_up_.allocate_s = allocating.seconds();
  memory_ = memory_of(measured);
  Carver carver = arena_.carver(), shared(shared_.data(), shared_.bytes());
  lay_out(carver, shared);
}

template <typename T>
void DrafterBench<T>::fill() {
  const Stream& stream = launcher().stream();
  worker_.load({});  // the tables are shared, so this makes the rope's only
  const RandomTile<T> weights(kWeightDeviation), features(1);
  const RandomTile<float> masters(kWeightDeviation);
  weights.fill(stream, tables_.embedding);
  if (tables_.head.data != tables_.embedding.data) weights.fill(stream, tables_.head);
  const OptimizerState<T>& state = worker_.state();
  weights.fill(stream, state.weights);
  masters.fill(stream, state.master);
  for (const WeightEntry& entry : worker_.table().entries) {
    if (entry.initial != InitialValue::ones) continue;
    fill_ones(stream, state.weights.slice(entry.offset, entry.size()));
    fill_ones(stream, state.master.slice(entry.offset, entry.size()));
  }
  for (const auto& moment : {state.first_moment, state.second_moment}) {
    fill_bytes(stream, moment.data, 0, bytes_of(moment).size);
  }
  fill_bytes(stream, state.update.data, 0, bytes_of(state.update).size);
  synchronize(stream);
  const Device host{.name = {DeviceKind::cpu, 0}};
  features.fill(Stream{.device = &host}, elements<T>(slot_.slot().features));
}

template <typename T>
void DrafterBench<T>::load() {
  worker_.stage(slot_.slot());
}

template <typename T>
void DrafterBench<T>::step() {
  worker_.begin_step();
  worker_.forward(0, 1);
  for (std::int64_t i = 0; i < worker_.backward_segments(); ++i) worker_.backward_segment(i);
}

template <typename T>
void DrafterBench<T>::update() {
  worker_.send_counted();
  worker_.update(1e-4);
}

template <typename T>
void DrafterBench<T>::check_updated() const {
  DRAFTSMITH_CHECK(worker_.update_state().applied == 1, "the step that is timed makes an update");
}

template <typename T>
TargetBench<T>::TargetBench(const Device& device, const Workload& workload)
    : workload_(workload),
      device_(device),
      worker_(device, recorded_kernels<T>(device), workload.shapes),
      slot_(workload, MaskKind::all, sizeof(T)) {
  allocate();
  fill();
  const Stopwatch first(device);
  worker_.warm_up(slot_.slot());
  set_up_.first_s = first.seconds();
}

template <typename T>
void TargetBench<T>::lay_out(Carver& carver) {
  worker_.carve(carver);
}

template <typename T>
void TargetBench<T>::allocate() {
  const Stopwatch preparing(device_);
  Carver views;
  lay_out(views);
  ProductChoices choices;
  worker_.measure(Preparation::products, choices);
  Carver measured;
  lay_out(measured);
  set_up_.prepare_s = preparing.seconds();
  const Stopwatch allocating(device_);
  arena_ = Arena(device_, measured.peak());
  set_up_.allocate_s = allocating.seconds();
  memory_ = memory_of(measured);
  Carver carver = arena_.carver();
  lay_out(carver);
}

// The worker reads its weights from files; here they are filled through views cut as the worker cuts them: weights
// first, then the rope's tables.
template <typename T>
void TargetBench<T>::fill() {
  const RunShapes& shapes = workload_.shapes;
  Carver carver = arena_.carver();
  const TargetWeights<T> weights = carve_target_weights<T>(carver, shapes.target, shapes.target_layers());
  DRAFTSMITH_CHECK(weights.tables.head.data == worker_.tables().head.data, "a target cuts its weights first");
  const RopeStorage rope = carve_rope(carver, shapes.positions, shapes.target.head_dim);
  fill_target_weights(launcher().stream(), weights);
  fill_rope(launcher().stream(), shapes.target.rope, shapes.target.head_dim, rope);
}

template <typename T>
void TargetBench<T>::prefill() {
  worker_.prefill();
}

template <typename T>
void TargetBench<T>::launch_prefill() {
  worker_.launch_prefill();
}

template <typename T>
void TargetBench<T>::prefill_with_slot() {
  worker_.fill(slot_.slot());
}

template <typename T>
void fill_target_weights(const Stream& stream, const TargetWeights<T>& weights) {
  const RandomTile<T> tile(kWeightDeviation);
  tile.fill(stream, weights.tables.embedding);
  if (weights.tables.head.data != weights.tables.embedding.data) tile.fill(stream, weights.tables.head);
  for (const TargetLayerWeights<T>& layer : weights.layers) {
    for (const auto& matrix : {layer.query_key_value, layer.output, layer.gate_up, layer.down}) {
      tile.fill(stream, matrix);
    }
    for (const auto& norm : {layer.input_norm, layer.post_attention_norm, layer.query_norm, layer.key_norm}) {
      fill_ones(stream, norm);
    }
  }
  fill_ones(stream, weights.norm);
  synchronize(stream);
}

template class DrafterBench<float>;
template class DrafterBench<bf16>;
template class TargetBench<float>;
template class TargetBench<bf16>;
template void fill_target_weights(const Stream&, const TargetWeights<float>&);
template void fill_target_weights(const Stream&, const TargetWeights<bf16>&);

}  // namespace draftsmith::bench
