#include "fabric/barrier.h"

namespace draftsmith {

bool Barrier::arrive() {
  Lock lock(mutex_);
  if (cancelled_) return false;
  const std::int64_t generation = generation_;
  if (++arrived_ == parties_) {
    arrived_ = 0;
    ++generation_;
    changed_.notify_all();
    return true;
  }
  while (generation_ == generation && !cancelled_) changed_.wait(mutex_);
  return generation_ != generation;  // a meeting that took place counts, whatever came after
}

void Barrier::cancel() {
  Lock lock(mutex_);
  cancelled_ = true;
  changed_.notify_all();
}

}  // namespace draftsmith
