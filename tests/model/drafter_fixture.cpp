#include "model/drafter_fixture.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "device/stream.h"

namespace draftsmith {

template <typename T>
DrafterFixture<T>::DrafterFixture(const DrafterShape& drafter_shape, const BatchBudget& batch_budget,
                                  const Options& options, const Kernels<T>& kernels)
    : shape(drafter_shape),
      budget(batch_budget),
      table(drafter_weight_table(drafter_shape)),
      options_(options),
      device_(options.device),
      drafter_(shape, options.recompute),
      launch_(device_, kernels) {
  attach_thread(device_);
  Carver measure;
  carve(measure);
  memory_ = Buffer::pinned(measure.peak());
  std::memset(memory_.data(), 0xff, static_cast<std::size_t>(memory_.bytes()));  // NaN in every type
  Carver carver(memory_.data(), memory_.bytes());
  carve(carver);
  fill_rope(launch_.stream(), shape.rope, shape.head_dim, rope_);
  launch_.set_mode(LaunchMode::measure);
  run({.loss_chunks = 1});
  backward(GradientWrite::add, [](std::int64_t) {});
  launch_.set_mode(LaunchMode::run);
  scratch_ = Buffer::on_device(device_, launch_.library().scratch_bytes());
  launch_.library().set_scratch({scratch_.data(), scratch_.bytes()});
}

template <typename T>
void DrafterFixture<T>::carve(Carver& carver) {
  batch = carve_micro_batch(carver, budget);
  rope_ = carve_rope(carver, shape.max_positions, shape.head_dim);
  features = carver.matrix<T>(budget.context_tokens, shape.feature_width());
  embedding = carver.matrix<T>(shape.vocabulary, shape.width);
  head = carver.matrix<T>(shape.vocabulary, shape.width);
  weights = carver.vector<T>(table.size);
  weight_gradients = carver.vector<float>(table.size);
  activations = carve_drafter_activations<T>(carver, shape, budget, options_.recompute);
  activations.context.plans = carve_drafter_plans(carver, launch_, shape, budget);
  gradients = carve_drafter_gradients<T>(carver, shape, budget);
  loss = carve_loss_scratch<T>(
      carver,
      {.budget = budget, .width = shape.width, .vocabulary = shape.vocabulary, .settings = options_.loss});
  teacher_hidden = carver.matrix<T>(budget.context_tokens, shape.width);
}

template <typename T>
void DrafterFixture<T>::set_weights(Vector<const float> masters) {
  std::transform(masters.begin(), masters.end(), weights.begin(), [](float value) { return T(value); });
}

template <typename T>
void DrafterFixture<T>::forward(const BatchCounts& counts, LossPass pass) {
  const auto view = view_weights<const T>(shape, table, weights);
  drafter_.context_forward(launch_, view, rope_.table(), features, batch.positions, activations.context);
  drafter_.blocks_forward(launch_, view, rope_.table(), embedding, batch, activations);
  run_loss<T>(launch_,
              {.settings = options_.loss,
               .pass = pass,
               .hidden = activations.last.output,
               .head = head,
               .teacher_hidden = teacher_hidden,
               .grad_hidden = gradients.output},
              batch, counts, budget, loss);
  synchronize(launch_.stream());
}

template <typename T>
void DrafterFixture<T>::run(const BatchCounts& counts) {
  run(counts, [](std::int64_t) {});
}

template <typename T>
void DrafterFixture<T>::run(const BatchCounts& counts,
                            const std::function<void(std::int64_t segment)>& after) {
  launch_(FillZero{bytes_of(loss.sums)});
  launch_(FillZero{bytes_of(weight_gradients)});
  synchronize(launch_.stream());
  for (const WeightEntry& entry : table.entries) {
    if (entry.columns == 0) continue;  // the gradients of matrices are written
    const Vector<float> gradient = weight_gradients.slice(entry.offset, entry.size());
    std::fill(gradient.begin(), gradient.end(), std::numeric_limits<float>::quiet_NaN());
  }
  forward(counts, LossPass::with_gradient);
  backward(GradientWrite::overwrite, after);
}

template <typename T>
void DrafterFixture<T>::backward(GradientWrite write,
                                 const std::function<void(std::int64_t segment)>& after) {
  const DrafterBackward<T> pass{.weights = view_weights<const T>(shape, table, weights),
                                .rope = rope_.table(),
                                .features = features,
                                .batch = batch,
                                .activations = activations,
                                .gradients = gradients,
                                .output_weights = loss.weights,
                                .weight_gradients = view_weights<float>(shape, table, weight_gradients),
                                .write = write};
  for (std::int64_t segment = 0; segment < drafter_.backward_segments(); ++segment) {
    drafter_.backward_segment(launch_, pass, segment);
    synchronize(launch_.stream());
    after(segment);
  }
}

template class DrafterFixture<float>;
template class DrafterFixture<bf16>;

}  // namespace draftsmith
