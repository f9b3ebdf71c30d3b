// SIGINT, SIGTERM and SIGHUP during work that should end tidily: the first asks for the end, which comes at the next
// good place, the second ends the process at once. One that is ignored when the program starts, as nohup does with SIGHUP, stays so.
#pragma once

#include <atomic>

#include "base/nonblocking_output.h"

namespace draftsmith {

// While one lives, the signals are caught. One at a time.
class StopSignals {
 public:
  // `doing` says in a line for the person who asked what is done before the end; a literal.
  explicit StopSignals(const char* doing);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The number of the signal that came; 0 when none did. Whoever else wants the end of the step may set it.
  std::atomic<int>& received() const;

 private:
  NonblockingOutput output_;  // a stalled terminal does not keep the thread that the signal interrupted
};

}  // namespace draftsmith
