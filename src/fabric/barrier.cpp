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
  if (arrived_ + 1 == parties_) changed_.notify_all();  // others_arrive_within()
  while (generation_ == generation && !cancelled_) changed_.wait(mutex_);
  return generation_ != generation;  // a meeting that took place counts, whatever came after
}

bool Barrier::others_arrive_within(std::chrono::milliseconds duration) {
  const auto until = std::chrono::steady_clock::now() + duration;
  Lock lock(mutex_);
  for (;;) {
    const bool arrived = arrived_ + 1 == parties_ || cancelled_;
    const auto left = until - std::chrono::steady_clock::now();
    if (arrived || left <= left.zero()) return arrived;
    changed_.wait_for(mutex_, left);
  }
}

void Barrier::cancel() {
  Lock lock(mutex_);
  cancelled_ = true;
  changed_.notify_all();
}

}  // namespace draftsmith
