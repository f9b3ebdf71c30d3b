// The drafter's part of a device: a filled slot in; loss and gradient added up over the micro-batches of a
// step, then one update. Or, for an evaluation, the slot's predictions.
//
// All that depends on shapes alone is captured as graphs at warm-up; a step replays them, and between them the host
// only chooses how many chunks of the loss are in use, and clears the gradient of the others:
//   begin | copy from staging, noise, forward, a chunk of the loss each, backward segments | … | update
// The next slot is copied to the staging memory by a stream of its own while the step before runs.
// Owned by the main thread during set-up, then by the device's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "device/graph.h"
#include "device/stream.h"
#include "fabric/collective.h"
#include "model/drafter.h"
#include "model/loss.h"
#include "model/target.h"
#include "train/optimizer.h"
#include "train/run_shapes.h"
#include "train/slots.h"
#include "train/step_sums.h"

namespace draftsmith {

struct DrafterSettings {
  const RunShapes& shapes;
  OptimizerConfig optimizer;
  std::uint64_t seed = 0;               // of the noise
  std::int64_t accumulate = 1;          // micro-batches of a step
  std::int64_t rank = 0, drafters = 1;  // which of those that exchange
};

template <typename T>
class DrafterWorker {
 public:
  DrafterWorker(const Device& device, const Kernels<T>& kernels, const DrafterSettings& settings);

  // Lays out everything; the same call measures and cuts. What the host reads and writes too is cut from
  // `shared`. `tables` are the target's when the device has that role too, else null.
  void carve(Carver& carver, Carver& shared, const VocabularyTables<T>* tables);
  // Prepares every launch, its products by `choices` and adding to them, and finds how much scratch they need, over
  // views without memory.
  void measure(Preparation preparation, ProductChoices& choices);
  // Reads the target's tables unless they are shared.
  void load(const std::filesystem::path& target_folder);
  // The state that training begins with.
  void restore(const TrainedState& state, std::int64_t updates);
  // Makes every launch once, on a filled slot, without a trace in the state; then captures the graphs.
  void warm_up(const Slot& slot);

  // Copies a slot's arrays and features to the staging memory, once the batch before has left it. Blocks until the slot
  // may be handed on; launches go on.
  void stage(const Slot& slot);

  // These queue launches and do not block.
  // Empties gradient and sums.
  void begin_step();
  // Forward and loss of the staged batch, with the run's noise on its features: `number` is the micro-batch's among all
  // of the run's, of `total`. Adds to the sums and leaves what backward needs.
  void forward(std::int64_t number, std::int64_t total);
  // The parts of backward, to be called in order (Drafter::backward_segment says what is complete after which). The
  // first micro-batch of a step writes the gradients of matrices, later ones add to them.
  std::int64_t backward_segments() const { return drafter_.backward_segments(); }
  void backward_segment(std::int64_t segment);
  // Of the gradient, what no later segment of the step's last micro-batch adds to.
  const std::vector<ExchangeRange>& complete_after(std::int64_t segment) const { return complete_[segment]; }
  // In place of the backward of a step's last micro-batch when that is empty.
  void skip_backward();
  // What the host counted joins the sums; then they are ready to be exchanged.
  void send_counted();

  // Makes the update from the exchanged gradient and sums. Blocks until it is made: the one wait of a step.
  void update(double learning_rate);
  // A whole step on the batch that was copied last, and its update, launch by launch: what the graphs were captured from.
  void launch_step();
  void launch_update();

  // Forward and loss of the staged batch; writes the slot's predictions and sums. Blocks until they are there.
  void evaluate(const Slot& slot);

  // Counted on the host since begin_step().
  void count(HostSum sum, double value) { host_.counted[static_cast<std::int64_t>(sum)] += value; }

  // After update().
  Vector<const double> sums() const { return host_.sums; }
  double host_sum(HostSum sum) const { return host_.sums[StepSums::index(sum, block_size())]; }
  double denominator() const { return host_.sums[StepSums::denominator(shapes_.loss.kind, block_size())]; }
  const UpdateState& update_state() const { return host_.update[0]; }
  double share_of_norms_at_one() const { return draftsmith::share_of_norms_at_one(table_, host_.undecayed); }

  ExchangeBuffers exchange_buffers() const {
    return {.gradient = state_.gradient, .sums = sums_, .weights = bytes_of(state_.weights)};
  }
  // Of the weights' bytes, what each drafter updates; empty unless the optimizer is sharded.
  const std::vector<ExchangeRange>& weight_parts() const { return weight_parts_; }
  const OptimizerState<T>& state() const { return state_; }
  const WeightTable& table() const { return table_; }
  // All launches are queued on its stream.
  Launcher<T>& launcher() { return launch_; }

  // Of the widest product of a layer, measured; overwrites memory that every pass writes anew.
  double product_rate();
  // Bytes a second from a slot to the device; stages the slot.
  double copy_rate(const Slot& slot);

 private:
  // What a micro-batch brings to the device.
  struct Inputs {
    CarvedBatch batch;
    Matrix<T> features;        // [context_tokens, taps * width]
    Matrix<T> teacher_hidden;  // [context_tokens, width], empty unless the loss is distilled
  };
  // Host memory that the device reads and writes.
  struct HostSide {
    Vector<float> learning_rate;  // [1]
    Vector<double> counted;       // [HostSum::count]
    Vector<double> sums;          // [StepSums::size]; like what follows, written at the end of an update
    Vector<UpdateState> update;   // [1]
    Vector<float> undecayed;      // the masters that do not decay, the norms among them
  };
  struct Graphs {
    Graph begin_step, forward, update;
    std::vector<Graph> training_chunks, evaluation_chunks;
    std::vector<Graph> first_backward, later_backward;  // by segment; later ones only where steps have them
  };

  const Stream& stream() const { return launch_.stream(); }
  std::int64_t block_size() const { return shapes_.drafter.block_size; }
  Inputs carve_inputs(Carver& carver) const;
  void unstage();
  void launch_begin_step();
  void launch_noise(std::int64_t number, std::int64_t total);
  void launch_forward();
  void launch_loss_chunk(LossPass pass, std::int64_t chunk);
  void launch_finish_loss(LossPass pass);
  void launch_backward_segment(std::int64_t segment, GradientWrite write);
  std::vector<Graph> capture_backward(GradientWrite write);
  void receive_update();
  void launch_everything();
  void capture();
  LossRun<T> loss_run(LossPass pass) const;

  // Constant after construction.
  const RunShapes& shapes_;
  const OptimizerConfig optimizer_;
  const std::uint64_t seed_;
  const bool accumulates_;
  const WeightTable table_;
  const std::vector<std::vector<ExchangeRange>> complete_;  // by segment
  const WeightRange shard_;                                 // of the optimizer's state
  const std::vector<ExchangeRange> weight_parts_;
  const Drafter<T> drafter_;
  // Set up before the run, and then only used.
  Launcher<T> launch_;
  const OwnStream copies_;
  Event staged_, staging_free_;
  Graphs graphs_;
  // Views of the device's arena.
  VocabularyTables<T> tables_;
  bool shares_tables_ = false;
  OptimizerState<T> state_;
  DrafterWeights<const T> weights_;
  DrafterWeights<float> weight_gradients_;
  RopeStorage rope_;
  Inputs staging_, inputs_;
  DrafterActivations<T> activations_;
  DrafterGradients<T> gradients_;
  LossScratch<T> loss_;  // its sums are the first of sums_
  Vector<double> sums_;  // [StepSums::size]
  HostSide host_;
  // Of the staged batch.
  BatchCounts counts_;
  bool gradient_is_stale_ = true;  // its matrices are still those of the step before
};

}  // namespace draftsmith
