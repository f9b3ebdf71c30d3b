// The threads of a run: feeder, one per device, evaluation, checkpoints. Set-up in the main thread, then
// seal(), then the gate opens; the first failure anywhere closes everything and is what run() throws.
//
//   feeder -> slot -> target i mod T -> slot -> drafter i mod D -> (evaluation) slot -> evaluation thread
//                                                 | exchange among drafters, update
//                                                 | drafter 0: record -> log, state -> checkpoint thread
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fabric/barrier.h"
#include "metrics/memory_watch.h"
#include "train/collector.h"
#include "train/crew.h"
#include "train/device_thread.h"
#include "train/feeder.h"
#include "train/report.h"
#include "train/resolve.h"
#include "train/role_times.h"
#include "train/run_config.h"

namespace draftsmith {

// What a run works on. All of it outlives the pipeline.
struct PipelineInputs {
  const RunConfig& config;  // resolved: steps, or epochs
  const RunShapes& shapes;
  const Corpus& train;
  const Corpus* evaluation = nullptr;  // null: none
  std::int64_t steps = 0;
  PipelineHooks hooks;
  const std::atomic<int>& stop_signal;
};

// Where a run begins.
struct StartingPoint {
  std::int64_t step = 0;  // the last that was made
  StepCounters counters;
  DataPosition position;
  double wall_s = 0;
  bool owes_evaluation = false;  // the one after `step` is due and was not made
};

SequencePlan plan_sequence(const PipelineInputs& inputs, const std::optional<EvaluationPlan>& evaluation,
                           const StartingPoint& start);
std::optional<EvaluationPlan> plan_evaluation(const PipelineInputs& inputs);

template <typename T>
class Pipeline {
 public:
  // Opens the devices.
  explicit Pipeline(const PipelineInputs& inputs);

  // Counts the memory of every device; and prepares its products, if it is to, by `choices` and adding to them.
  void measure(Preparation preparation, ProductChoices& choices);
  // Allocates what was counted, and the slots: all memory of the run but the staging buffer. Connects the drafters.
  void allocate();
  // Reads the weights, sets every drafter's state, and runs each device once on the first micro-batch.
  void set_up(const TrainedState& state, const StartingPoint& start, SetUpTimes& times);
  // In place of run(): how long each role takes on the first micro-batch.
  RoleTimes time_roles();
  // Blocks until the run is done or stopped; throws the first failure.
  void run(const StartingPoint& start, Recorder& recorder, CheckpointThread& checkpoints);

  const WeightTable& table() const { return table_; }
  const std::vector<std::unique_ptr<DeviceThread<T>>>& devices() const { return devices_; }
  // Of the queue, on the host and on a drafter's device.
  std::int64_t slot_bytes() const;
  std::int64_t slot_bytes_on(const Device& device) const;
  // With the queue's.
  std::map<std::string, std::int64_t> bytes_by_purpose(const DeviceThread<T>& device) const;

  // After run().
  TrainReport report() const;
  std::optional<EvaluationRecord> last_evaluation() const;
  const DeviceThread<T>& drafter_zero() const;

 private:
  void close_all(CheckpointThread& checkpoints);
  void start_threads(Crew& crew, const PipelineLinks& links, Recorder& recorder,
                     CheckpointThread& checkpoints);
  std::chrono::milliseconds watch_period() const;
  bool watch_set_up(Crew& crew);
  void watch(Crew& crew, const StepLeader& leader);
  void run_device(DeviceThread<T>& device, const PipelineLinks& links);

  // Constant after set-up.
  const PipelineInputs inputs_;
  const WeightTable table_;
  const std::optional<EvaluationPlan> evaluation_;
  std::vector<std::unique_ptr<DeviceThread<T>>> devices_;
  const std::vector<Device> homes_;  // of the slots' features; empty: the host
  // Each its own thread's, while one runs.
  std::optional<Feeder> feeder_;
  std::optional<Collector> collector_;
  // Shared.
  std::optional<SlotRing> ring_;
  std::unique_ptr<Collective> collective_;  // from allocate() on
  Barrier gate_;                            // of the devices' threads and the main thread
  // Main thread only.
  MemoryWatch memory_;
  double limit_s_ = 0;  // of the watchdog
  SealReport seal_;
  HeapCounts heap_;
  double last_checkpoint_s_ = 0;
};

}  // namespace draftsmith
