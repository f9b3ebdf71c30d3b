// SIGINT and SIGTERM while a run trains: the first asks for the end of the step, the second ends the process
// at once.
#pragma once

#include <atomic>

namespace draftsmith {

// While one lives, the two signals are caught. One at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The number of the signal that came; 0 when none did.
  const std::atomic<int>& received() const;
};

}  // namespace draftsmith
