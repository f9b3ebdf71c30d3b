// Wall-clock times of several runs, the device waited for before and after.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

#include "device/stream.h"

namespace draftsmith::bench {

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  double ms() const { return seconds() * 1e3; }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// Of several runs.
struct Times {
  double median = 0;
  double best = 0;  // what a machine that others use too would take alone
};

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

inline Times times_of(const std::vector<double>& values) {
  return {.median = median(values), .best = *std::min_element(values.begin(), values.end())};
}

// Milliseconds of one call.
template <typename Body>
double time_ms(const Stream& stream, const Body& body) {
  synchronize(stream);
  const Stopwatch watch;
  body();
  synchronize(stream);
  return watch.ms();
}

}  // namespace draftsmith::bench
