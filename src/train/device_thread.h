// One device and all that is on it: its memory, its products, and the roles it plays. A device may be a
// target, a drafter or both; then its thread does the one's work on micro-batch i before the other's.
//
// Work is queued ahead of the device by one: a step that is followed by another one is finished (exchanged, updated)
// only after every drafter has taken its first micro-batch of the next. So, while a GPU trains, its thread waits for
// the next features, makes them itself if it is a target too, and copies them. The exchange of a gradient is asked for
// part by part, as soon as backward has completed each.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fabric/collective.h"
#include "tensor/arena.h"
#include "train/drafter_worker.h"
#include "train/hooks.h"
#include "train/idle.h"
#include "train/sequence.h"
#include "train/step_leader.h"
#include "train/target_worker.h"
#include "train/waits.h"

namespace draftsmith {

// Which micro-batches a device works on: as a target those with i mod targets == target, as a drafter those
// with i mod drafters == drafter.
struct DeviceRoles {
  std::optional<std::int64_t> target, drafter;
  std::int64_t targets = 1, drafters = 1;

  bool makes(std::int64_t index) const { return target && index % targets == *target; }
  bool trains_on(std::int64_t index) const { return drafter && index % drafters == *drafter; }
  const char* text() const;  // "target", "drafter", "target and drafter"
};

// What the threads of a pipeline share; all of it outlives them.
struct PipelineLinks {
  const SequencePlan& plan;
  SlotRing& ring;
  Collective& collective;
  StepLeader& leader;  // drafter 0's
  const PipelineHooks& hooks;
  const std::atomic<int>& stop_signal;  // not 0: end after this step
};

// How much a device computed.
struct WorkDone {
  double target_flops = 0, drafter_flops = 0;  // useful ones: 2 * multiply-adds
  std::int64_t tokens = 0, blocks = 0;         // trained on
  std::int64_t steps = 0;
};

// Bytes a second, measured at warm-up; 0 where the device has not the role.
struct CopyRates {
  double to_slot = 0;    // a target's
  double from_slot = 0;  // a drafter's
};

template <typename T>
class DeviceThread {
 public:
  DeviceThread(const Device& device, const DeviceRoles& roles, const RunShapes& shapes,
               const TrainConfig& train);

  // Main thread, in this order. measure() counts the memory, which is all that a plan needs, and if it is to
  // prepares every product, by `choices` and adding to them; carve() allocates; load() reads weights.
  void measure(Preparation preparation, ProductChoices& choices);
  void carve();
  void load(const std::filesystem::path& target_folder);
  void restore(const TrainedState& state, const StepCounters& counters);
  // Runs every role once on real work, without the exchange and without a trace in the state: the target
  // fills the slot, the drafter trains on it. Then captures their graphs.
  void warm_up(Slot& slot);

  // These take the place of run() where only speeds are asked for, and leave another state. Seconds of a micro-batch, the
  // median of a few.
  // Until the features are in the slot.
  double time_target(Slot& slot);
  // In the order of run(), where the next slot is copied while a step runs; with the micro-batch's part of a step's exchange
  // and update. Every drafter calls it at once, in a thread of its own; when cancelled it ends early.
  double time_drafter(const Slot& slot, Collective& collective);

  // The device's thread. Blocks until the sequence is done, the run stops or the ring is closed.
  void run(const PipelineLinks& links);
  // A step's exchange of nothing, by the device's thread before run(). False when cancelled.
  bool exchange_nothing(Collective& collective);

  const Device& device() const { return device_; }
  const DeviceRoles& roles() const { return roles_; }
  std::int64_t bytes() const { return measured_.peak(); }
  const std::map<std::string, std::int64_t>& bytes_by_purpose() const { return measured_.bytes_by_purpose(); }
  std::vector<std::string> attention_paths();
  std::vector<std::string> describe_products();
  ExchangeBuffers exchange_buffers() const { return drafter_->exchange_buffers(); }
  const OptimizerState<T>& state() const { return drafter_->state(); }

  // After run() has ended.
  const ThreadTimes& times() const { return times_; }
  const StepCounters& counters() const { return counters_; }
  const WorkDone& work() const { return work_; }
  const CopyRates& copy_rates() const { return copy_rates_; }
  double product_rate() const { return product_rate_; }  // measured at warm-up, 2 * multiply-adds / s

 private:
  template <typename Lines>
  std::vector<std::string> lines_of_libraries(Lines lines_of);
  void lay_out(Carver& carver, Carver& shared);
  // These return false when the run ends here.
  bool work_on(const SequenceItem& item, const PipelineLinks& links);
  bool make(const SequenceItem& item, const PipelineLinks& links);
  bool take(const SequenceItem& item, const PipelineLinks& links);
  Slot* await_features(const SequenceItem& item, const PipelineLinks& links);
  bool finish_step(const PipelineLinks& links);
  bool train(const PipelineLinks& links);
  bool repeat_step(const Slot& slot, Collective& collective);
  struct BackwardOf {
    bool ends_step = false, empty = false;
  };
  bool backward(const BackwardOf& batch, Collective& collective);
  bool exchange_and_update(double learning_rate, Collective& collective);
  bool gather(Collective& collective);
  bool exchange_completed(Collective& collective, std::int64_t segment);
  void count(const SequenceItem& item, const BatchFacts& facts);
  std::optional<StepOutcome> update(std::int64_t step, const PipelineLinks& links);

  // A micro-batch of training that the drafter has taken and not yet begun.
  struct Taken {
    SequenceItem item;
    BatchFacts facts;
  };

  // Constant after set-up.
  const Device device_;
  const DeviceRoles roles_;
  const RunShapes& shapes_;
  const OptimizerConfig optimizer_;
  const std::int64_t accumulate_;
  Carver measured_, measured_shared_;
  Arena arena_;
  Buffer shared_;  // what the host and the device both read and write
  double product_rate_ = 0;
  CopyRates copy_rates_;
  // The device's thread only, once it runs.
  std::optional<TargetWorker<T>> target_;
  std::optional<DrafterWorker<T>> drafter_;
  IdleSpans idle_;         // in waits for features while launches of a step run
  bool launched_ = false;  // and nobody has waited for them yet
  std::optional<Taken> taken_;
  std::optional<SequenceItem> to_finish_;  // the last micro-batch of a step that is launched, not finished
  StepCounters counters_;
  std::chrono::steady_clock::time_point began_;
  ThreadTimes times_;
  WorkDone work_;
};

}  // namespace draftsmith
