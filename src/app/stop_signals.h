// SIGINT, SIGTERM and SIGHUP while a run trains: the first asks for the end of the step, the second ends the
// process at once. One that is ignored when the program starts, as nohup does with SIGHUP, stays so.
#pragma once

#include <atomic>

namespace draftsmith {

// While one lives, the signals are caught. One at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The number of the signal that came; 0 when none did. Whoever else wants the end of the step may set it.
  std::atomic<int>& received() const;
};

}  // namespace draftsmith
