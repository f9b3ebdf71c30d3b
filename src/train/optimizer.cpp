#include "train/optimizer.h"

#include <algorithm>

#include "base/all_cores.h"
#include "base/arithmetic.h"
#include "tensor/staged.h"

namespace draftsmith {

namespace {

constexpr std::int64_t kLeastOfACore = std::int64_t{1} << 18;  // values

}  // namespace

WeightRange state_shard(const WeightTable& table, std::int64_t rank, std::int64_t drafters) {
  constexpr std::int64_t kEntries = 64;
  const auto end = [&](std::int64_t parts) {
    return std::min(table.decayed, round_up(table.decayed * parts / drafters, kEntries));
  };
  return {.begin = end(rank), .size = end(rank + 1) - end(rank)};
}

template <typename T>
OptimizerState<T> carve_optimizer(Carver& carver, const WeightTable& table, const WeightRange& shard) {
  OptimizerState<T> state;
  state.shard = shard;
  const std::int64_t kept = shard.size + table.size - table.decayed;
  carver.purpose("drafter weights");
  state.weights = carver.vector<T>(table.size);
  carver.purpose("optimizer");
  for (auto* vector : {&state.master, &state.first_moment, &state.second_moment}) {
    *vector = carver.vector<float>(kept);
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
  for (const Vector<float> moment : {state.first_moment, state.second_moment}) {
    on_all_cores(moment.size, kLeastOfACore, [&](std::int64_t begin, std::int64_t end) {
      std::fill(moment.data + begin, moment.data + end, 0.0f);
    });
  }
}

namespace {

// Of a vector over all parameters, what belongs to the parts of a kept one.
template <typename E>
struct KeptParts {
  Vector<E> shard, undecayed;
};
template <typename E, typename T>
KeptParts<E> kept_parts(const OptimizerState<T>& state, Vector<E> all) {
  const std::int64_t undecayed = state.master.size - state.shard.size;
  return {.shard = all.slice(state.shard.begin, state.shard.size),
          .undecayed = all.slice(all.size - undecayed, undecayed)};
}

template <typename T>
void upload_kept(const Stream& stream, const OptimizerState<T>& state, Vector<const float> all,
                 Vector<float> kept) {
  const KeptParts<const float> parts = kept_parts(state, all);
  upload<float>(stream, parts.shard, kept.slice(0, parts.shard.size));
  upload<float>(stream, parts.undecayed, kept.slice(parts.shard.size, parts.undecayed.size));
}

// In pieces: the host takes no memory of the size of all weights.
template <typename T>
void upload_rounded(const Stream& stream, Vector<const float> from, Vector<T> to) {
  constexpr std::int64_t kPiece = std::int64_t{1} << 23;
  for (std::int64_t first = 0; first < from.size; first += kPiece) {
    const std::int64_t size = std::min(kPiece, from.size - first);
    const Staged<T> piece(stream, to.slice(first, size));
    on_all_cores(size, kLeastOfACore, [&](std::int64_t begin, std::int64_t end) {
      std::transform(from.data + first + begin, from.data + first + end, piece.host().data + begin,
                     [](float value) { return T(value); });
    });
    piece.upload();
  }
}

template <typename T>
void download_kept(const Stream& stream, const OptimizerState<T>& state, Vector<float> kept,
                   Vector<float> all) {
  const KeptParts<float> parts = kept_parts(state, all);
  download<float>(stream, kept.slice(0, parts.shard.size), parts.shard);
  if (state.shard.begin > 0) return;
  download<float>(stream, kept.slice(parts.shard.size, parts.undecayed.size), parts.undecayed);
}

}  // namespace

template <typename T>
void restore_state(const Stream& stream, const TrainedState& from, std::int64_t updates,
                   const OptimizerState<T>& to) {
  upload_kept(stream, to, from.master, to.master);
  upload_kept(stream, to, from.first_moment, to.first_moment);
  upload_kept(stream, to, from.second_moment, to.second_moment);
  upload_rounded(stream, from.master, to.weights);
  fill_bytes(stream, to.gradient.data, 0, bytes_of(to.gradient).size);
  const UpdateState update{.updates = updates};
  upload<UpdateState>(stream, {&update, 1}, to.update);
}

template <typename T>
void copy_state(const Stream& stream, const OptimizerState<T>& from, const TrainedState& to) {
  download_kept(stream, from, from.master, to.master);
  download_kept(stream, from, from.first_moment, to.first_moment);
  download_kept(stream, from, from.second_moment, to.second_moment);
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
  AdamWUpdate<T> update{.settings = {.beta1 = static_cast<float>(step.settings.betas[0]),
                                     .beta2 = static_cast<float>(step.settings.betas[1]),
                                     .epsilon = static_cast<float>(step.settings.eps),
                                     .weight_decay = static_cast<float>(step.settings.weight_decay)},
                        .decayed = step.decayed,
                        .state = state.update,
                        .gradient = state.gradient,
                        .master = state.master,
                        .first_moment = state.first_moment,
                        .second_moment = state.second_moment,
                        .weights = state.weights};
  if (state.shard.size == step.decayed) return launch(update);  // one flat range
  const auto launch_part = [&](const WeightRange& part, std::int64_t kept_from, std::int64_t decayed) {
    if (part.size == 0) return;
    update.decayed = decayed;
    update.gradient = state.gradient.slice(part.begin, part.size);
    update.weights = state.weights.slice(part.begin, part.size);
    update.master = state.master.slice(kept_from, part.size);
    update.first_moment = state.first_moment.slice(kept_from, part.size);
    update.second_moment = state.second_moment.slice(kept_from, part.size);
    launch(update);
  };
  launch_part(state.shard, 0, state.shard.size);
  launch_part({.begin = step.decayed, .size = state.weights.size - step.decayed}, state.shard.size, 0);
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

template OptimizerState<float> carve_optimizer(Carver&, const WeightTable&, const WeightRange&);
template OptimizerState<bf16> carve_optimizer(Carver&, const WeightTable&, const WeightRange&);
template void restore_state(const Stream&, const TrainedState&, std::int64_t, const OptimizerState<float>&);
template void restore_state(const Stream&, const TrainedState&, std::int64_t, const OptimizerState<bf16>&);
template void copy_state(const Stream&, const OptimizerState<float>&, const TrainedState&);
template void copy_state(const Stream&, const OptimizerState<bf16>&, const TrainedState&);
template void run_update(Launcher<float>&, const UpdateStep&, const OptimizerState<float>&);
template void run_update(Launcher<bf16>&, const UpdateStep&, const OptimizerState<bf16>&);

}  // namespace draftsmith
