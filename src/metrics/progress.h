// The progress of a run for the person who watches it. On a terminal one line moves in place, redrawn at most
// ten times a second and cut to the width by whole fields; elsewhere a plain line appears every ten seconds.
// Messages stand above the moving line. One thread owns it.
// A terminal that stalls is never waited for: progress lines are left out, messages are kept for later. Once it is gone,
// nothing is shown any more.
//   step 120/400  loss 2.31  acc 0.41  accept 2.10  9.8k tok/s  queue 3/4  eta 1m12s
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>

#include "base/nonblocking_output.h"
#include "metrics/record.h"

namespace draftsmith {

struct ProgressSettings {
  int descriptor;  // of what is written to; stays open
  std::int64_t total_steps;
  std::function<double()> now_s;          // a clock that never goes back
  std::function<std::int64_t()> columns;  // of the terminal, now; empty: plain lines
};

// Writes to stderr, which is a terminal or not.
ProgressSettings progress_on_stderr(std::int64_t total_steps);

class Progress {
 public:
  explicit Progress(ProgressSettings settings)
      : settings_(std::move(settings)), output_(settings_.descriptor) {}

  void show(const StepRecord& record);

  // A line of its own, or several; without a last newline. While the terminal is stalled the newest hundred are kept for when
  // it goes on; how many were dropped is said then.
  void message(const std::string& text);

  // Leaves the newest line standing. Nothing more is shown until the next show(). Blocks for a second at most, while the
  // terminal is stalled.
  void finish();

 private:
  std::string line(const StepRecord& record, double now_s) const;
  bool write_rest();
  bool begin(std::string_view text);
  bool show_waiting();
  bool draw();
  bool leave_standing();

  ProgressSettings settings_;
  NonblockingOutput output_;
  std::string rest_;                 // of what the output took a part of; comes before anything else
  std::deque<std::string> waiting_;  // messages, oldest first
  std::int64_t dropped_ = 0;         // messages before those
  std::string newest_;               // what finish() would leave
  bool newest_shown_ = true;         // as it is
  bool moving_ = false;              // the cursor is on the moving line
  double shown_s_ = 0;               // when a line was last drawn or printed
  bool any_shown_ = false;
  std::int64_t first_step_ = 0;  // of this process, for the rate behind the ETA
  double first_s_ = 0;
};

// As in "2.31"; what is no number is "nan", whatever its sign.
std::string fixed_text(double value, int decimals);

// As in "9.8k", "120" or "1.25M": three significant digits at most.
std::string short_count(double count);

// As in "42s", "1m12s", "3h05m" or "2d04h".
std::string short_duration(double seconds);

}  // namespace draftsmith
