// The drafter's part of a device: a filled slot in; loss and gradient added up over the micro-batches of a
// step, then one update. Or, for an evaluation, the slot's predictions.
// Owned by the main thread during set-up, then by the device's.
#pragma once

#include <cstdint>
#include <filesystem>

#include "fabric/local_collective.h"
#include "model/drafter.h"
#include "model/loss.h"
#include "model/target.h"
#include "train/optimizer.h"
#include "train/run_shapes.h"
#include "train/slots.h"
#include "train/step_sums.h"

namespace draftsmith {

template <typename T>
class DrafterWorker {
 public:
  DrafterWorker(const RunShapes& shapes, const OptimizerConfig& optimizer, std::uint64_t seed);

  // Lays out everything; the same call measures and cuts. What the host reads and writes too is cut from
  // `shared`. `tables` are the target's when the device has that role too, else null.
  void carve(Carver& carver, Carver& shared, const VocabularyTables<T>* tables);
  // Reads the target's tables unless they are shared.
  void load(const Stream& stream, const std::filesystem::path& target_folder);
  // The state that training begins with.
  void restore(const Stream& stream, const TrainedState& state, std::int64_t updates);

  // Every product of a step, whatever the memory holds: what a measuring launcher prepares.
  void measure(Launcher<T>& launch);

  // Empties gradient and sums. Blocks until they are empty.
  void begin_step(Launcher<T>& launch);
  // Copies a slot's arrays and features to the device. Blocks until the slot may be handed on.
  void load_batch(const Stream& stream, const Slot& slot);
  // Adds the run's noise to the loaded features; `number` is the micro-batch's among all of the run's, of `total`.
  void add_noise(Launcher<T>& launch, std::int64_t number, std::int64_t total);
  // Forward, loss and backward of the loaded batch; adds to gradient and sums.
  void train(Launcher<T>& launch);
  // Forward and loss of the loaded batch; writes the slot's predictions and sums. Blocks until they are there.
  void evaluate(Launcher<T>& launch, Slot& slot);
  // Makes the update from the exchanged gradient and sums. Blocks until it is made.
  void update(Launcher<T>& launch, double learning_rate);
  // Of the masters as they are after the last update. Blocks until they are copied to the host.
  double share_of_norms_at_one(const Stream& stream);

  // The sums are the host's to read once the device has been waited for.
  void add_host_sum(HostSum sum, double value) { sums_[StepSums::index(sum, block_size())] += value; }
  double host_sum(HostSum sum) const { return sums_[StepSums::index(sum, block_size())]; }
  Vector<const double> sums() const { return sums_; }
  double denominator() const { return sums_[StepSums::denominator(shapes_.loss.kind, block_size())]; }
  ExchangeBuffers exchange_buffers() const { return {.gradient = state_.gradient, .sums = sums_}; }
  const OptimizerState<T>& state() const { return state_; }
  const WeightTable& table() const { return table_; }

  // The widest product of a layer, on memory that every pass writes anew.
  Matmul<T> largest_product() const;

 private:
  std::int64_t block_size() const { return shapes_.drafter.block_size; }
  void forward(Launcher<T>& launch, LossPass pass);

  // Constant after construction.
  const RunShapes& shapes_;
  const OptimizerConfig optimizer_;
  const std::uint64_t seed_;  // of the noise
  const WeightTable table_;
  const Drafter<T> drafter_;
  // Views of the device's arena.
  VocabularyTables<T> tables_;
  bool shares_tables_ = false;
  OptimizerState<T> state_;
  DrafterWeights<const T> weights_;
  DrafterWeights<float> weight_gradients_;
  RopeStorage rope_;
  CarvedBatch batch_;
  Matrix<T> features_;        // [context_tokens, taps * width]
  Matrix<T> teacher_hidden_;  // [context_tokens, width], empty unless the loss is distilled
  DrafterActivations<T> activations_;
  DrafterGradients<T> gradients_;
  LossScratch<T> loss_;      // its sums are the first of sums_
  Vector<double> sums_;      // [StepSums::size], shared with the host
  Vector<float> undecayed_;  // of the host: a copy of the masters that do not decay, the norms among them
  // Of the loaded batch.
  BatchCounts counts_;
};

}  // namespace draftsmith
