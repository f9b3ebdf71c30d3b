// Text for a terminal or a pipe that may stall (Ctrl-S, a reader that does not read) or go away: nothing here waits for it.
#pragma once

#include <chrono>
#include <cstddef>
#include <string_view>

namespace draftsmith {

// One thread at a time. A reader that went away is found by a write only where SIGPIPE is ignored; else the signal ends the
// process.
class NonblockingOutput {
 public:
  explicit NonblockingOutput(int descriptor);  // must stay open
  ~NonblockingOutput();
  NonblockingOutput(NonblockingOutput&& other) noexcept;
  NonblockingOutput& operator=(NonblockingOutput&&) = delete;

  // Never blocks. How many bytes from the front of `text` were taken: none or a part while the output is stalled, all of them
  // once it is gone, since nobody reads them. A signal handler may call it, errno stays as it was.
  std::size_t write(std::string_view text);

  // Blocks until more is likely to be taken, at most for `patience`. False when it is not.
  bool wait(std::chrono::milliseconds patience) const;

  // Whether a write has failed for good.
  bool gone() const { return gone_; }

 private:
  const int descriptor_;
  int opened_ =
      -1;  // the same file without blocking; the flags of descriptor_ are shared with other processes
  bool gone_ = false;
};

}  // namespace draftsmith
