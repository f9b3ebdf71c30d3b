#include "train/optimizer.h"

#include <algorithm>

#include "tensor/staged.h"

namespace draftsmith {

template <typename T>
OptimizerState<T> carve_optimizer(Carver& carver, const WeightTable& table) {
  OptimizerState<T> state;
  carver.purpose("drafter weights");
  state.weights = carver.vector<T>(table.size);
  carver.purpose("optimizer");
  for (auto* vector : {&state.master, &state.first_moment, &state.second_moment}) {
    *vector = carver.vector<float>(table.size);
  }
  carver.purpose("gradient");
  state.gradient = carver.vector<float>(table.size);
  state.sum_of_squares = carver.vector<double>(1);
  state.update = carver.vector<UpdateState>(1);
  return state;
}

TrainedState carve_trained_state(Carver& carver, const WeightTable& table) {
  return {.master = carver.vector<float>(table.size),
          .first_moment = carver.vector<float>(table.size),
          .second_moment = carver.vector<float>(table.size)};
}

void initialise_state(const WeightTable& table, std::uint64_t seed, const TrainedState& state) {
  initialise_weights(table, seed, state.master);
  std::fill(state.first_moment.begin(), state.first_moment.end(), 0.0f);
  std::fill(state.second_moment.begin(), state.second_moment.end(), 0.0f);
}

template <typename T>
void restore_state(const Stream& stream, const TrainedState& from, std::int64_t updates,
                   const OptimizerState<T>& to) {
  upload<float>(stream, from.master, to.master);
  upload<float>(stream, from.first_moment, to.first_moment);
  upload<float>(stream, from.second_moment, to.second_moment);
  const Staged<T> weights(stream, to.weights);
  std::transform(from.master.begin(), from.master.end(), weights.host().begin(),
                 [](float value) { return T(value); });
  weights.upload();
  fill_bytes(stream, to.gradient.data, 0, bytes_of(to.gradient).size);
  const UpdateState update{.updates = updates};
  upload<UpdateState>(stream, {&update, 1}, to.update);
}

template <typename T>
void copy_state(const Stream& stream, const OptimizerState<T>& from, const TrainedState& to) {
  download<float>(stream, from.master, to.master);
  download<float>(stream, from.first_moment, to.first_moment);
  download<float>(stream, from.second_moment, to.second_moment);
}

template <typename T>
void run_update(Launcher<T>& launch, const UpdateStep& step, const OptimizerState<T>& state) {
  launch(SumOfSquares<T>{.input = state.gradient, .output = state.sum_of_squares});
  launch(PrepareUpdate<T>{.sum_of_squares = state.sum_of_squares,
                          .loss_numerator = step.loss_numerator,
                          .denominator = step.denominator,
                          .learning_rate = step.learning_rate,
                          .clip = static_cast<float>(step.settings.clip),
                          .state = state.update});
  launch(AdamWUpdate<T>{.settings = {.beta1 = static_cast<float>(step.settings.betas[0]),
                                     .beta2 = static_cast<float>(step.settings.betas[1]),
                                     .epsilon = static_cast<float>(step.settings.eps),
                                     .weight_decay = static_cast<float>(step.settings.weight_decay)},
                        .decayed = step.decayed,
                        .state = state.update,
                        .gradient = state.gradient,
                        .master = state.master,
                        .first_moment = state.first_moment,
                        .second_moment = state.second_moment,
                        .weights = state.weights});
}

double share_of_norms_at_one(const WeightTable& table, Vector<const float> undecayed) {
  std::int64_t norms = 0, at_one = 0;
  for (const WeightEntry& entry : table.entries) {
    if (entry.initial != InitialValue::ones) continue;
    const Vector<const float> values = undecayed.slice(entry.offset - table.decayed, entry.size());
    norms += values.size;
    at_one += std::count(values.begin(), values.end(), 1.0f);
  }
  return static_cast<double>(at_one) / static_cast<double>(norms);
}

template OptimizerState<float> carve_optimizer(Carver&, const WeightTable&);
template OptimizerState<bf16> carve_optimizer(Carver&, const WeightTable&);
template void restore_state(const Stream&, const TrainedState&, std::int64_t, const OptimizerState<float>&);
template void restore_state(const Stream&, const TrainedState&, std::int64_t, const OptimizerState<bf16>&);
template void copy_state(const Stream&, const OptimizerState<float>&, const TrainedState&);
template void copy_state(const Stream&, const OptimizerState<bf16>&, const TrainedState&);
template void run_update(Launcher<float>&, const UpdateStep&, const OptimizerState<float>&);
template void run_update(Launcher<bf16>&, const UpdateStep&, const OptimizerState<bf16>&);

}  // namespace draftsmith
