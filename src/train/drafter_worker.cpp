#include "train/drafter_worker.h"

#include <algorithm>

#include "device/stream.h"
#include "model/linear.h"

namespace draftsmith {

template <typename T>
DrafterWorker<T>::DrafterWorker(const RunShapes& shapes, const OptimizerConfig& optimizer, std::uint64_t seed)
    : shapes_(shapes),
      optimizer_(optimizer),
      seed_(seed),
      table_(drafter_weight_table(shapes.drafter)),
      drafter_(shapes.drafter, shapes.recompute) {}

template <typename T>
void DrafterWorker<T>::carve(Carver& carver, Carver& shared, const VocabularyTables<T>* tables) {
  const DrafterShape& shape = shapes_.drafter;
  const BatchBudget& budget = shapes_.budget;
  shares_tables_ = tables != nullptr;
  carver.purpose("vocabulary tables");
  tables_ = tables ? *tables : carve_vocabulary_tables<T>(carver, shapes_.target);
  state_ = carve_optimizer<T>(carver, shared, table_);
  weights_ = view_weights<const T>(shape, table_, state_.weights);
  weight_gradients_ = view_weights<float>(shape, table_, state_.gradient);
  carver.purpose("micro-batch");
  rope_ = carve_rope(carver, shapes_.positions, shape.head_dim);
  batch_ = carve_batch(carver, budget);
  features_ = carver.matrix<T>(budget.context_tokens, shape.feature_width());
  if (shapes_.loss.distilled()) teacher_hidden_ = carver.matrix<T>(budget.context_tokens, shape.width);
  carver.purpose("drafter activations");
  activations_ = carve_drafter_activations<T>(carver, shape, budget, shapes_.recompute);
  carver.purpose("activation gradients");
  gradients_ = carve_drafter_gradients<T>(carver, shape, budget);
  carver.purpose("loss");
  loss_ = carve_loss_scratch<T>(
      carver,
      {.budget = budget, .width = shape.width, .vocabulary = shape.vocabulary, .settings = shapes_.loss});
  sums_ = shared.vector<double>(StepSums::size(budget.block_size));
  undecayed_ = shared.vector<float>(table_.size - table_.decayed);
  loss_.sums = sums_.slice(0, LossSums::size(budget.block_size));
}

template <typename T>
void DrafterWorker<T>::load(const Stream& stream, const std::filesystem::path& target_folder) {
  if (!shares_tables_) load_vocabulary_tables(stream, target_folder, shapes_.target, tables_);
  fill_rope(stream, shapes_.drafter.rope, shapes_.drafter.head_dim, rope_);
}

template <typename T>
void DrafterWorker<T>::restore(const Stream& stream, const TrainedState& state, std::int64_t updates) {
  restore_state(stream, state, updates, state_);
}

template <typename T>
void DrafterWorker<T>::measure(Launcher<T>& launch) {
  counts_ = {.loss_chunks = 1};
  train(launch);
}

template <typename T>
void DrafterWorker<T>::begin_step(Launcher<T>& launch) {
  launch(FillZero{bytes_of(state_.gradient)});
  launch(FillZero{bytes_of(sums_)});
  synchronize(launch.stream());
}

template <typename T>
void DrafterWorker<T>::load_batch(const Stream& stream, const Slot& slot) {
  DRAFTSMITH_CHECK(slot.batch_bytes.size == batch_.bytes.size, "a slot and a device have the same shapes");
  copy_bytes(stream, batch_.bytes.data, slot.batch_bytes.data, batch_.bytes.size);
  copy_bytes(stream, features_.data, slot.features.data, slot.features.size);
  if (slot.final_hidden.size > 0) {
    copy_bytes(stream, teacher_hidden_.data, slot.final_hidden.data, slot.final_hidden.size);
  }
  synchronize(stream);
  counts_ = slot.facts.counts;
}

template <typename T>
void DrafterWorker<T>::add_noise(Launcher<T>& launch, std::int64_t number, std::int64_t total) {
  const NoiseConfig& noise = shapes_.noise;
  if (noise.type == NoiseKind::none) return;
  const double left = 1.0 - static_cast<double>(number) / static_cast<double>(total);
  const double scale = noise.schedule == NoiseSchedule::linear ? noise.scale * left : noise.scale;
  launch(AddFeatureNoise<T>{.kind = noise.type,
                            .scale = static_cast<float>(scale),
                            .seed = seed_,
                            .index = number,
                            .features = features_});
}

template <typename T>
void DrafterWorker<T>::forward(Launcher<T>& launch, LossPass pass) {
  drafter_.context_forward(launch, weights_, rope_.table(), features_, batch_.batch.positions,
                           activations_.context);
  drafter_.blocks_forward(launch, weights_, rope_.table(), tables_.embedding, batch_.batch, activations_);
  run_loss(launch,
           {.settings = shapes_.loss,
            .pass = pass,
            .hidden = activations_.output,
            .head = tables_.head,
            .teacher_hidden = teacher_hidden_,
            .grad_hidden = gradients_.output},
           batch_.batch, counts_, shapes_.budget, loss_);
}

template <typename T>
void DrafterWorker<T>::train(Launcher<T>& launch) {
  forward(launch, LossPass::with_gradient);
  drafter_.backward(launch, weights_, rope_.table(), features_, batch_.batch, activations_, gradients_,
                    weight_gradients_);
}

template <typename T>
void DrafterWorker<T>::evaluate(Launcher<T>& launch, Slot& slot) {
  launch(FillZero{bytes_of(sums_)});
  forward(launch, LossPass::forward_only);
  copy_bytes(launch.stream(), slot.predictions.data, loss_.predictions.data, bytes_of(slot.predictions).size);
  synchronize(launch.stream());
  std::copy(loss_.sums.begin(), loss_.sums.end(), slot.sums.begin());
}

template <typename T>
void DrafterWorker<T>::update(Launcher<T>& launch, double learning_rate) {
  run_update(launch,
             {.settings = optimizer_,
              .learning_rate = learning_rate,
              .decayed = table_.decayed,
              .loss_numerator = sums_.slice(LossSums::kNumerator, 1),
              .denominator = sums_.slice(StepSums::denominator(shapes_.loss.kind, block_size()), 1)},
             state_);
  synchronize(launch.stream());
}

template <typename T>
double DrafterWorker<T>::share_of_norms_at_one(const Stream& stream) {
  copy_bytes(stream, undecayed_.data, state_.master.data + table_.decayed, bytes_of(undecayed_).size);
  synchronize(stream);
  return draftsmith::share_of_norms_at_one(table_, undecayed_);
}

template <typename T>
Matmul<T> DrafterWorker<T>::largest_product() const {
  const LayerSaved<T>& saved = activations_.layers.front();
  return linear<T>(saved.middle_normed, weights_.layers.front().gate_up, {}, saved.gate_up);
}

template class DrafterWorker<float>;
template class DrafterWorker<bf16>;

}  // namespace draftsmith
