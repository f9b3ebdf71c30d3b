// The progress of a run for the person who watches it. On a terminal one line moves in place, redrawn at most
// ten times a second and cut to the width by whole fields; elsewhere a plain line appears every ten seconds.
// Messages stand above the moving line. One thread owns it.
//   step 120/400  loss 2.31  acc 0.41  accept 2.10  9.8k tok/s  queue 3/4  eta 1m12s
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>

#include "metrics/record.h"

namespace draftsmith {

struct ProgressSettings {
  std::ostream& out;
  std::int64_t total_steps;
  std::function<double()> now_s;          // a clock that never goes back
  std::function<std::int64_t()> columns;  // of the terminal, now; empty: plain lines
};

// Writes to stderr, which is a terminal or not.
ProgressSettings progress_on_stderr(std::int64_t total_steps);

class Progress {
 public:
  explicit Progress(ProgressSettings settings) : settings_(std::move(settings)) {}

  void show(const StepRecord& record);

  // A line of its own, or several; without a last newline.
  void message(const std::string& text);

  // Leaves the newest line standing. Nothing more is shown until the next show().
  void finish();

 private:
  std::string line(const StepRecord& record, double now_s) const;
  void draw();

  ProgressSettings settings_;
  std::string newest_;        // what finish() would leave
  bool newest_shown_ = true;  // as it is
  bool moving_ = false;       // the cursor is on the moving line
  double shown_s_ = 0;        // when a line was last drawn or printed
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
