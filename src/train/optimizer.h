// The trained state of a drafter and its update: fp32 masters and moments over one flat range, the weights
// that the passes read, and the gradient that a step adds up. Every drafter keeps all of it and, after the
// exchange, makes the same update on the same bits. Or, sharded (ZeRO, arXiv 1910.02054, stage 1), each keeps the masters
// and moments of a part of the matrices, updates that part, and the weights are gathered: the same bits. What does not
// decay, the norms among it, is small and kept by all.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/launcher.h"
#include "model/weights.h"
#include "tensor/carver.h"
#include "train/run_config.h"

namespace draftsmith {

// The part of the matrices whose state drafter `rank` of `drafters` keeps: it begins and ends on a cache line of any
// storage type. All of them for one of one.
WeightRange state_shard(const WeightTable& table, std::int64_t rank, std::int64_t drafters);

// Views of a device's memory.
template <typename T>
struct OptimizerState {
  Vector<T> weights;     // [parameters]: the masters rounded to T
  WeightRange shard;     // of the parameters, whose state is kept beside what does not decay
  Vector<float> master;  // [kept]: the shard's, then those that do not decay
  Vector<float> first_moment, second_moment;  // [kept]
  Vector<float> gradient;                     // [parameters]: summed over the step, unscaled
  Vector<double> sum_of_squares;              // [1], of the gradient
  Vector<UpdateState> update;                 // [1]
};
template <typename T>
OptimizerState<T> carve_optimizer(Carver& carver, const WeightTable& table, const WeightRange& shard);

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
// The shard, and with the first one what does not decay: together the drafters' copies are the whole state.
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
