#include "train/drafter_worker.h"

#include <algorithm>
#include <cstring>

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
void DrafterWorker<T>::carve(Carver& carver, const VocabularyTables<T>* shared) {
  const DrafterShape& shape = shapes_.drafter;
  const BatchBudget& budget = shapes_.budget;
  shares_tables_ = shared != nullptr;
  carver.purpose("vocabulary tables");
  tables_ = shared ? *shared : carve_vocabulary_tables<T>(carver, shapes_.target);
  state_ = carve_optimizer<T>(carver, table_);
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
  sums_ = carver.vector<double>(StepSums::size(budget.block_size));
  loss_.sums = sums_.slice(0, LossSums::size(budget.block_size));
}

template <typename T>
void DrafterWorker<T>::load(const std::filesystem::path& target_folder) {
  if (!shares_tables_) load_vocabulary_tables(target_folder, shapes_.target, tables_);
  fill_rope(shapes_.drafter.rope, shapes_.drafter.head_dim, rope_);
}

template <typename T>
void DrafterWorker<T>::restore(const TrainedState& state, std::int64_t updates) {
  restore_state(state, updates, state_);
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
}

template <typename T>
void DrafterWorker<T>::load_batch(const Slot& slot) {
  DRAFTSMITH_CHECK(slot.batch_bytes.size == batch_.bytes.size, "a slot and a device have the same shapes");
  std::memcpy(batch_.bytes.data, slot.batch_bytes.data, static_cast<std::size_t>(batch_.bytes.size));
  std::memcpy(features_.data, slot.features.data, static_cast<std::size_t>(slot.features.size));
  if (slot.final_hidden.size > 0) {
    std::memcpy(teacher_hidden_.data, slot.final_hidden.data,
                static_cast<std::size_t>(slot.final_hidden.size));
  }
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
  std::copy(loss_.predictions.begin(), loss_.predictions.end(), slot.predictions.begin());
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
}

template <typename T>
Matmul<T> DrafterWorker<T>::largest_product() const {
  const LayerSaved<T>& saved = activations_.layers.front();
  return linear<T>(saved.middle_normed, weights_.layers.front().gate_up, {}, saved.gate_up);
}

template class DrafterWorker<float>;
template class DrafterWorker<bf16>;

}  // namespace draftsmith
