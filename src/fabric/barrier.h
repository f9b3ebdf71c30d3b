// Where a fixed number of threads meet again and again. It ends by cancel(), for ever: nobody waits for a
// thread that has failed. Takes no heap.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/mutex.h"

namespace draftsmith {

class Barrier {
 public:
  explicit Barrier(std::int64_t parties) : parties_(parties) {}

  // Blocks until all parties have arrived. False when cancelled.
  bool arrive();
  // For a party that looks after the others until they wait for it alone. Blocks until they do, or it is cancelled, and
  // no longer than `duration`. Whether arrive() would not block.
  bool others_arrive_within(std::chrono::milliseconds duration);

  void cancel();

 private:
  // Constant after construction.
  const std::int64_t parties_;
  // Shared.
  Mutex mutex_;
  Condition changed_;
  std::int64_t arrived_ GUARDED_BY(mutex_) = 0;
  std::int64_t generation_ GUARDED_BY(mutex_) = 0;
  bool cancelled_ GUARDED_BY(mutex_) = false;
};

}  // namespace draftsmith
