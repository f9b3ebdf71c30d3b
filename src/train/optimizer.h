// The trained state of a drafter and its update: fp32 masters and moments over one flat range, the weights
// that the passes read, and the gradient that a step adds up. Every drafter keeps all of it and, after the
// exchange, makes the same update on the same bits.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/launcher.h"
#include "model/weights.h"
#include "tensor/carver.h"
#include "train/run_config.h"

namespace draftsmith {

// Views of a device's memory.
template <typename T>
struct OptimizerState {
  Vector<T> weights;                          // [parameters]: the masters rounded to T
  Vector<float> master;                       // [parameters]
  Vector<float> first_moment, second_moment;  // [parameters]
  Vector<float> gradient;                     // [parameters]: summed over the step, unscaled
  Vector<double> sum_of_squares;              // [1], of the gradient
  Vector<UpdateState> update;                 // [1]
};
template <typename T>
OptimizerState<T> carve_optimizer(Carver& carver, const WeightTable& table);

// A copy of what a checkpoint keeps. Views of host memory.
struct TrainedState {
  Vector<float> master, first_moment, second_moment;  // [parameters]
};
TrainedState carve_trained_state(Carver& carver, const WeightTable& table);

// The state at step 0: first values, moments 0.
void initialise_state(const WeightTable& table, std::uint64_t seed, const TrainedState& state);

// Both block until the copies are there.
template <typename T>
void restore_state(const Stream& stream, const TrainedState& from, std::int64_t updates,
                   const OptimizerState<T>& to);
template <typename T>
void copy_state(const Stream& stream, const OptimizerState<T>& from, const TrainedState& to);

struct UpdateStep {
  const OptimizerConfig& settings;
  std::int64_t decayed = 0;             // WeightTable::decayed
  Vector<const float> learning_rate;    // [1], in memory that the host writes
  Vector<const double> loss_numerator;  // [1]
  Vector<const double> denominator;     // [1]
};
// Clips by the global norm and updates; state.update says what was done.
template <typename T>
void run_update(Launcher<T>& launch, const UpdateStep& step, const OptimizerState<T>& state);

// The share of norm weights that are exactly 1, as they began: bf16 masters would leave them all there.
// undecayed: the masters from WeightTable::decayed on, where the norms lie; host memory.
double share_of_norms_at_one(const WeightTable& table, Vector<const float> undecayed);

}  // namespace draftsmith
