// Where a fixed number of threads meet again and again. It ends by cancel(), for ever: nobody waits for a
// thread that has failed. Takes no heap.
#pragma once

#include <cstdint>

#include "base/mutex.h"

namespace draftsmith {

class Barrier {
 public:
  explicit Barrier(std::int64_t parties) : parties_(parties) {}

  // Blocks until all parties have arrived. False when cancelled.
  bool arrive();

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
