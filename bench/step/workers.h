// Drafter and target as a device's thread holds them, with random weights and one packed micro-batch: what step_bench
// times. The one place that follows the workers' interface.
#pragma once

#include <map>
#include <string>

#include "bench/step/shapes.h"
#include "kernels/launcher.h"
#include "tensor/arena.h"
#include "train/drafter_worker.h"
#include "train/target_worker.h"

namespace draftsmith::bench {

// What comes before the second pass, without making and copying weights and data.
struct SetUpTimes {
  double prepare_s = 0;   // choosing the products
  double allocate_s = 0;  // the arena
  double first_s = 0;     // the first pass, which loads kernels
};

struct DeviceMemory {
  std::int64_t arena_bytes = 0;  // as planned, and as allocated
  std::map<std::string, std::int64_t> by_purpose;
};

// A slot and the pinned memory behind it.
class PackedSlot {
 public:
  PackedSlot(const Workload& workload, MaskKind mask, std::int64_t element_bytes);
  Slot& slot() { return slot_; }
  const BatchFacts& facts() const { return slot_.facts; }

 private:
  Buffer memory_;
  Slot slot_;
};

// Used by one thread, attached to the device; constructors set up and make the first pass.
template <typename T>
class DrafterBench {
 public:
  DrafterBench(const Device& device, const Workload& workload, MaskKind mask);

  // Work of the loaded micro-batch. A step is queued as the run queues it; update() blocks.
  void step();    // empties the gradient; forward, loss, backward
  void update();  // clips, updates
  // The same launch by launch, so that each is recorded.
  void launch_step() {
    launcher().set_overlap(Overlap::none);
    worker_.launch_step();
    launcher().set_overlap(Overlap::products_aside);
  }
  void launch_update() { worker_.launch_update(); }
  // After an update: it was applied, not skipped for numbers that are not finite.
  void check_updated() const;
  // Copies the slot to the device again. Blocks.
  void load();

  Launcher<T>& launcher() { return worker_.launcher(); }
  const BatchFacts& facts() const { return slot_.facts(); }
  const SetUpTimes& set_up() const { return set_up_; }
  const DeviceMemory& memory() const { return memory_; }

 private:
  void lay_out(Carver& carver, Carver& shared);
  void allocate();
  void fill();

  const Workload& workload_;
  const Device& device_;
  DrafterWorker<T> worker_;
  VocabularyTables<T> tables_;
  Arena arena_;
  Buffer shared_;
  PackedSlot slot_;
  SetUpTimes set_up_;
  DeviceMemory memory_;
};

template <typename T>
class TargetBench {
 public:
  TargetBench(const Device& device, const Workload& workload);

  void prefill();            // on the device alone
  void launch_prefill();     // the same launch by launch, so that each is recorded
  void prefill_with_slot();  // with the copies from and to the slot. Blocks.

  Launcher<T>& launcher() { return worker_.launcher(); }
  const BatchFacts& facts() const { return slot_.facts(); }
  const SetUpTimes& set_up() const { return set_up_; }
  const DeviceMemory& memory() const { return memory_; }

 private:
  void lay_out(Carver& carver);
  void allocate();
  void fill();

  const Workload& workload_;
  const Device& device_;
  TargetWorker<T> worker_;
  Arena arena_;
  PackedSlot slot_;
  SetUpTimes set_up_;
  DeviceMemory memory_;
};

// Weights of deviation 0.02, norms of 1. Blocks.
template <typename T>
void fill_target_weights(const Stream& stream, const TargetWeights<T>& weights);

}  // namespace draftsmith::bench
