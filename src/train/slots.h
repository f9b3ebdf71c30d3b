// The fixed pool between the threads: micro-batch i lies in slot i mod slots, and goes round
//   free -> packed (feeder) -> filled (target i mod T) -> free (drafter i mod D has copied it)
//                                                      -> predicted (drafter, evaluation) -> free (collector)
//
// No deadlock, for any number of slots, targets, drafters and any share of roles among threads: give the
// events the order
//   pack i  <  target i  <  drafter i takes it  <  collect i  <  pack i + 1
// and the exchange of a step a place before a pack: when training follows, after the first `drafters` micro-batches of
// the next step (so each drafter has taken one ahead), otherwise after the step's own last one.
// Each thread does its events in this order, and each event waits only for lesser ones: pack i for the slot
// that i - slots left, target i for pack i, drafter i for target i, collect i for drafter i, and an exchange
// for every drafter to come to it, all of whose events before are lesser. To take i also waits on the device until
// the drafter's batch before has left the staging memory, which is behind launches of its own step and of finished
// ones, never behind an exchange to come. So the least event that is not done has all it waits for, its thread has
// done all it had to do before, and it goes on.
#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "device/memory.h"
#include "model/micro_batch.h"
#include "tensor/carver.h"
#include "train/sampler.h"

namespace draftsmith {

enum class SlotState { free, packed, filled, predicted };

// What is known of a micro-batch beside its arrays.
struct BatchFacts {
  BatchCounts counts;
  std::int64_t attended_rows = 0;      // context rows that its blocks see, summed over blocks
  std::int64_t target_pairs = 0;       // pairs of rows of a document, one not after the other
  std::int64_t supervised_tokens = 0;  // of its documents
  std::int64_t covered_tokens = 0;     // of these, in some block as the anchor or a slot
  DataPosition after;                  // where packing goes on; of training micro-batches

  // What a document of so many tokens adds to attended_rows and target_pairs.
  void add_work(std::int64_t tokens, std::span<const std::int32_t> anchors) {
    attended_rows += std::accumulate(anchors.begin(), anchors.end(), std::int64_t{0});
    target_pairs += tokens * (tokens + 1) / 2;
  }
};

struct Slot {
  MicroBatch batch;
  Vector<std::byte> batch_bytes;  // all arrays of the batch, side by side
  Vector<std::byte> features;     // [context_tokens, taps * width] of the compute type
  Vector<std::byte>
      final_hidden;  // [context_tokens, width], after the target's final norm; empty unless distilled
  Vector<std::int32_t> predictions;  // [loss_rows], of an evaluation
  Vector<double> sums;               // [LossSums::size], of an evaluation
  BatchFacts facts;
};

struct SlotShape {
  BatchBudget budget;
  std::int64_t feature_row_bytes = 0;
  std::int64_t final_hidden_row_bytes = 0;  // 0: not carried
};

// The arrays of a micro-batch and the bytes that hold them all.
struct CarvedBatch {
  MicroBatch batch;
  Vector<std::byte> bytes;
};
CarvedBatch carve_batch(Carver& carver, const BatchBudget& budget);

// `features` cuts what only devices touch: features and final hidden states.
Slot carve_slot(Carver& carver, Carver& features, const SlotShape& shape);

class SlotRing {
 public:
  // The features of slot i lie on homes[i]; without homes, in pinned host memory like all else.
  SlotRing(const SlotShape& shape, std::int64_t slots, const std::vector<Device>& homes = {});

  // Blocks until micro-batch `index` is in `state` (free: until its slot is), and takes no heap. Null after
  // close(), and for an index at or past the end. The slot is the caller's until advance().
  Slot* wait(std::int64_t index, SlotState state);

  // Hands micro-batch `index` on; to SlotState::free, its slot is that of index + slots from now on.
  void advance(std::int64_t index, SlotState to);

  // No micro-batch at or past `index` is waited for any more; those before it go on.
  void end_at(std::int64_t index);

  // Ends every wait, now and later.
  void close();

  // Slots that wait for a drafter now.
  std::int64_t filled();
  std::int64_t size() const { return static_cast<std::int64_t>(places_.size()); }

 private:
  struct Place {
    Slot slot;
    Condition changed;
    SlotState state = SlotState::free;  // guarded by mutex_, like index
    std::int64_t index = 0;             // of the micro-batch that it holds or gets next
  };

  // Constant after construction, but for what a slot's owner writes.
  Buffer memory_;
  std::vector<Buffer> features_;  // by slot, where they have homes
  std::vector<Place> places_;
  // Shared.
  Mutex mutex_;
  std::int64_t end_ GUARDED_BY(mutex_);
  bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace draftsmith
