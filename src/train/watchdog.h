// Ends a run in which nobody goes on any more: a peer that is stuck on its device, a lock-up, a call that never
// returns. The main thread asks it now and then.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "train/waits.h"

namespace draftsmith {

// How long nobody may go on: what is configured, else 60 s or ten times the slowest device's warm-up.
double watchdog_limit_s(const std::optional<double>& configured, double warm_up_s);

class Watchdog {
 public:
  explicit Watchdog(double limit_s) : limit_s_(limit_s) {}

  // `running` are the times of all threads that have not ended. Throws Error saying who waits for whom when none of
  // them has begun or ended a wait for too long. The pace of the disk is not judged: while a thread waits for a
  // checkpoint to be written, all is well.
  void check(const std::vector<const ThreadTimes*>& running);

 private:
  const double limit_s_;
  std::int64_t changes_ = -1;
  std::chrono::steady_clock::time_point since_;
};

}  // namespace draftsmith
