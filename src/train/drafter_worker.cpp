#include "train/drafter_worker.h"

#include <algorithm>

#include "model/linear.h"
#include "train/rates.h"

namespace draftsmith {

namespace {

std::vector<std::vector<ExchangeRange>> complete_ranges(const DrafterShape& shape, const WeightTable& table) {
  std::vector<std::vector<ExchangeRange>> ranges;
  for (const auto& segment : completed_ranges(shape, table)) {
    ranges.emplace_back();
    for (const WeightRange& range : segment) {
      ranges.back().push_back({.begin = range.begin, .size = range.size});
    }
  }
  return ranges;
}

template <typename T>
std::vector<ExchangeRange> parts_of_weights(const WeightTable& table, std::int64_t drafters) {
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(T));
  std::vector<ExchangeRange> parts;
  for (std::int64_t rank = 0; rank < drafters; ++rank) {
    const WeightRange shard = state_shard(table, rank, drafters);
    parts.push_back({.begin = shard.begin * kBytes, .size = shard.size * kBytes});
  }
  return parts;
}

}  // namespace

template <typename T>
DrafterWorker<T>::DrafterWorker(const Device& device, const Kernels<T>& kernels,
                                const DrafterSettings& settings)
    : shapes_(settings.shapes),
      optimizer_(settings.optimizer),
      seed_(settings.seed),
      accumulates_(settings.accumulate > 1),
      table_(drafter_weight_table(shapes_.drafter)),
      complete_(complete_ranges(shapes_.drafter, table_)),
      shard_(settings.optimizer.shard ? state_shard(table_, settings.rank, settings.drafters)
                                      : state_shard(table_, 0, 1)),
      weight_parts_(settings.optimizer.shard ? parts_of_weights<T>(table_, settings.drafters)
                                             : std::vector<ExchangeRange>()),
      drafter_(shapes_.drafter, shapes_.recompute),
      launch_(device, kernels),
      copies_(device),
      staged_(device),
      staging_free_(device) {}

template <typename T>
typename DrafterWorker<T>::Inputs DrafterWorker<T>::carve_inputs(Carver& carver) const {
  const std::int64_t rows = shapes_.budget.context_tokens;
  Inputs inputs;
  inputs.batch = carve_batch(carver, shapes_.budget);
  inputs.features = carver.matrix<T>(rows, shapes_.drafter.feature_width());
  if (shapes_.loss.distilled()) inputs.teacher_hidden = carver.matrix<T>(rows, shapes_.drafter.width);
  return inputs;
}

template <typename T>
void DrafterWorker<T>::carve(Carver& carver, Carver& shared, const VocabularyTables<T>* tables) {
  const DrafterShape& shape = shapes_.drafter;
  const BatchBudget& budget = shapes_.budget;
  shares_tables_ = tables != nullptr;
  carver.purpose("vocabulary tables");
  tables_ = tables ? *tables : carve_vocabulary_tables<T>(carver, shapes_.target);
  state_ = carve_optimizer<T>(carver, table_, shard_);
  weights_ = view_weights<const T>(shape, table_, state_.weights);
  weight_gradients_ = view_weights<float>(shape, table_, state_.gradient);
  carver.purpose("micro-batch");
  rope_ = carve_rope(carver, shapes_.positions, shape.head_dim);
  staging_ = carve_inputs(carver);
  inputs_ = carve_inputs(carver);
  carver.purpose("drafter activations");
  activations_ = carve_drafter_activations<T>(carver, shape, budget, shapes_.recompute);
  activations_.context.plans = carve_drafter_plans(carver, launch_, shape, budget);
  carver.purpose("activation gradients");
  gradients_ = carve_drafter_gradients<T>(carver, shape, budget);
  carver.purpose("loss");
  loss_ = carve_loss_scratch<T>(
      carver,
      {.budget = budget, .width = shape.width, .vocabulary = shape.vocabulary, .settings = shapes_.loss});
  sums_ = carver.vector<double>(StepSums::size(budget.block_size));
  loss_.sums = sums_.slice(0, LossSums::size(budget.block_size));
  carver.purpose("scratch of launches");
  launch_.library().set_scratch(carver.vector<std::byte>(launch_.library().scratch_bytes()));
  host_ = {.learning_rate = shared.vector<float>(1),
           .counted = shared.vector<double>(StepSums::host_sums()),
           .sums = shared.vector<double>(StepSums::size(budget.block_size)),
           .update = shared.vector<UpdateState>(1),
           .undecayed = shared.vector<float>(table_.size - table_.decayed)};
}

template <typename T>
void DrafterWorker<T>::measure(Preparation preparation, ProductChoices& choices) {
  counts_ = {.loss_chunks = 1};
  launch_.measure(preparation, choices, [this] { launch_everything(); });
}

template <typename T>
void DrafterWorker<T>::load(const std::filesystem::path& target_folder) {
  if (!shares_tables_) load_vocabulary_tables(stream(), target_folder, shapes_.target, tables_);
  fill_rope(stream(), shapes_.drafter.rope, shapes_.drafter.head_dim, rope_);
}

template <typename T>
void DrafterWorker<T>::restore(const TrainedState& state, std::int64_t updates) {
  restore_state(stream(), state, updates, state_);
}

// The update comes last, of a step in which nothing is supervised: it changes nothing.
template <typename T>
void DrafterWorker<T>::launch_everything() {
  launch_noise(0, 1);
  launch_step();
  if (accumulates_) {
    for (std::int64_t i = 0; i < backward_segments(); ++i) launch_backward_segment(i, GradientWrite::add);
  }
  launch_loss_chunk(LossPass::forward_only, 0);
  launch_finish_loss(LossPass::forward_only);
  launch_begin_step();
  launch_update();
}

template <typename T>
void DrafterWorker<T>::launch_step() {
  launch_begin_step();
  launch_forward();
  for (std::int64_t chunk = 0; chunk < counts_.loss_chunks; ++chunk) {
    launch_loss_chunk(LossPass::with_gradient, chunk);
  }
  launch_finish_loss(LossPass::with_gradient);
  for (std::int64_t i = 0; i < backward_segments(); ++i) launch_backward_segment(i, GradientWrite::overwrite);
}

template <typename T>
void DrafterWorker<T>::warm_up(const Slot& slot) {
  stage(slot);
  unstage();
  host_.learning_rate[0] = 0;
  launch_everything();
  send_counted();
  receive_update();
  synchronize(stream());
  capture();
}

template <typename T>
void DrafterWorker<T>::capture() {
  const auto captured = [&](auto body) { return Graph::capture(stream(), body); };
  graphs_.begin_step = captured([this] { launch_begin_step(); });
  graphs_.forward = captured([this] { launch_forward(); });
  for (std::int64_t chunk = 0; chunk < shapes_.budget.loss_chunks(); ++chunk) {
    graphs_.training_chunks.push_back(
        captured([=, this] { launch_loss_chunk(LossPass::with_gradient, chunk); }));
    graphs_.evaluation_chunks.push_back(
        captured([=, this] { launch_loss_chunk(LossPass::forward_only, chunk); }));
  }
  graphs_.first_backward = capture_backward(GradientWrite::overwrite);
  if (accumulates_) graphs_.later_backward = capture_backward(GradientWrite::add);
  graphs_.update = captured([this] {
    launch_update();
    receive_update();
  });
}

template <typename T>
std::vector<Graph> DrafterWorker<T>::capture_backward(GradientWrite write) {
  std::vector<Graph> graphs;
  for (std::int64_t segment = 0; segment < backward_segments(); ++segment) {
    graphs.push_back(Graph::capture(stream(), [=, this] { launch_backward_segment(segment, write); }));
  }
  return graphs;
}

template <typename T>
void DrafterWorker<T>::stage(const Slot& slot) {
  DRAFTSMITH_CHECK(slot.batch_bytes.size == staging_.batch.bytes.size,
                   "a slot and a device have the same shapes");
  const Stream& stream = copies_.view();
  staging_free_.wait(stream);
  copy_bytes(stream, staging_.batch.bytes.data, slot.batch_bytes.data, slot.batch_bytes.size);
  copy_bytes(stream, staging_.features.data, slot.features.data, slot.features.size);
  copy_bytes(stream, staging_.teacher_hidden.data, slot.final_hidden.data, slot.final_hidden.size);
  staged_.record(stream);
  staged_.synchronize();
  counts_ = slot.facts.counts;
}

template <typename T>
void DrafterWorker<T>::unstage() {
  const auto copy = [&](auto from, auto to) {
    copy_bytes(stream(), bytes_of(to).data, bytes_of(from).data, bytes_of(from).size);
  };
  copy(staging_.batch.bytes, inputs_.batch.bytes);
  copy(staging_.features, inputs_.features);
  copy(staging_.teacher_hidden, inputs_.teacher_hidden);
  staging_free_.record(stream());
}

template <typename T>
void DrafterWorker<T>::begin_step() {
  std::fill(host_.counted.begin(), host_.counted.end(), 0.0);
  graphs_.begin_step.replay(stream());
  gradient_is_stale_ = true;
}

template <typename T>
void DrafterWorker<T>::launch_begin_step() {
  launch_(FillZero{bytes_of(state_.gradient.slice(table_.decayed, table_.size - table_.decayed))});
  launch_(FillZero{bytes_of(sums_)});
}

template <typename T>
void DrafterWorker<T>::launch_noise(std::int64_t number, std::int64_t total) {
  const NoiseConfig& noise = shapes_.noise;
  if (noise.type == NoiseKind::none) return;
  const double left = 1.0 - static_cast<double>(number) / static_cast<double>(total);
  const double scale = noise.schedule == NoiseSchedule::linear ? noise.scale * left : noise.scale;
  launch_(AddFeatureNoise<T>{.kind = noise.type,
                             .scale = static_cast<float>(scale),
                             .seed = seed_,
                             .index = number,
                             .features = inputs_.features});
}

template <typename T>
LossRun<T> DrafterWorker<T>::loss_run(LossPass pass) const {
  return {.settings = shapes_.loss,
          .pass = pass,
          .hidden = activations_.last.output,
          .head = tables_.head,
          .teacher_hidden = inputs_.teacher_hidden,
          .grad_hidden = gradients_.output};
}

template <typename T>
void DrafterWorker<T>::launch_forward() {
  const MicroBatch& batch = inputs_.batch.batch;
  drafter_.context_forward(launch_, weights_, rope_.table(), inputs_.features, batch.positions,
                           activations_.context);
  drafter_.blocks_forward(launch_, weights_, rope_.table(), tables_.embedding, batch, activations_);
}

template <typename T>
void DrafterWorker<T>::launch_loss_chunk(LossPass pass, std::int64_t chunk) {
  run_loss_chunk(launch_, loss_run(pass), inputs_.batch.batch, shapes_.budget, loss_, chunk);
}

template <typename T>
void DrafterWorker<T>::launch_finish_loss(LossPass pass) {
  finish_loss(launch_, loss_run(pass), inputs_.batch.batch, counts_, shapes_.budget, loss_);
}

template <typename T>
void DrafterWorker<T>::forward(std::int64_t number, std::int64_t total) {
  unstage();
  launch_noise(number, total);
  graphs_.forward.replay(stream());
  for (std::int64_t chunk = 0; chunk < counts_.loss_chunks; ++chunk) {
    graphs_.training_chunks[chunk].replay(stream());
  }
  launch_finish_loss(LossPass::with_gradient);
}

template <typename T>
void DrafterWorker<T>::launch_backward_segment(std::int64_t segment, GradientWrite write) {
  drafter_.backward_segment(launch_,
                            {.weights = weights_,
                             .rope = rope_.table(),
                             .features = inputs_.features,
                             .batch = inputs_.batch.batch,
                             .activations = activations_,
                             .gradients = gradients_,
                             .output_weights = loss_.weights,
                             .weight_gradients = weight_gradients_,
                             .write = write},
                            segment);
}

template <typename T>
void DrafterWorker<T>::backward_segment(std::int64_t segment) {
  (gradient_is_stale_ ? graphs_.first_backward : graphs_.later_backward)[segment].replay(stream());
  if (segment + 1 == backward_segments()) gradient_is_stale_ = false;
}

template <typename T>
void DrafterWorker<T>::skip_backward() {
  if (!gradient_is_stale_) return;
  launch_(FillZero{bytes_of(state_.gradient.slice(0, table_.decayed))});
  gradient_is_stale_ = false;
}

template <typename T>
void DrafterWorker<T>::send_counted() {
  const Vector<double> counted = sums_.slice(LossSums::size(block_size()), host_.counted.size);
  copy_bytes(stream(), counted.data, host_.counted.data, bytes_of(counted).size);
}

template <typename T>
void DrafterWorker<T>::launch_update() {
  run_update(launch_,
             {.settings = optimizer_,
              .decayed = table_.decayed,
              .learning_rate = host_.learning_rate,
              .loss_numerator = sums_.slice(LossSums::kNumerator, 1),
              .denominator = sums_.slice(StepSums::denominator(shapes_.loss.kind, block_size()), 1)},
             state_);
}

template <typename T>
void DrafterWorker<T>::receive_update() {
  const Vector<float> undecayed = state_.master.slice(shard_.size, host_.undecayed.size);
  copy_bytes(stream(), host_.sums.data, sums_.data, bytes_of(sums_).size);
  copy_bytes(stream(), host_.update.data, state_.update.data, sizeof(UpdateState));
  copy_bytes(stream(), host_.undecayed.data, undecayed.data, bytes_of(undecayed).size);
}

template <typename T>
void DrafterWorker<T>::update(double learning_rate) {
  host_.learning_rate[0] = static_cast<float>(learning_rate);
  graphs_.update.replay(stream());
  synchronize(stream());
}

template <typename T>
void DrafterWorker<T>::evaluate(const Slot& slot) {
  unstage();
  launch_(FillZero{bytes_of(sums_)});
  graphs_.forward.replay(stream());
  for (std::int64_t chunk = 0; chunk < counts_.loss_chunks; ++chunk) {
    graphs_.evaluation_chunks[chunk].replay(stream());
  }
  launch_finish_loss(LossPass::forward_only);
  copy_bytes(stream(), slot.predictions.data, loss_.predictions.data, bytes_of(slot.predictions).size);
  copy_bytes(stream(), slot.sums.data, loss_.sums.data, bytes_of(slot.sums).size);
  synchronize(stream());
}

template <typename T>
double DrafterWorker<T>::product_rate() {
  const LayerSaved<T>& saved = activations_.layers.front();
  return measure_product_rate(
      launch_, linear<T>(saved.tail.normed, weights_.layers.front().gate_up, {}, saved.tail.gate_up));
}

template <typename T>
double DrafterWorker<T>::copy_rate(const Slot& slot) {
  const std::int64_t bytes = slot.batch_bytes.size + slot.features.size + slot.final_hidden.size;
  return measure_rate(static_cast<double>(bytes), [&] { stage(slot); });
}

template class DrafterWorker<float>;
template class DrafterWorker<bf16>;

}  // namespace draftsmith
