// Times of several runs, the device waited for before and after.
#pragma once

#include <algorithm>
#include <chrono>
#include <ctime>
#include <vector>

#include "device/stream.h"

namespace draftsmith::bench {

// A clock for work on this device, launched by the calling thread: wall-clock time, but on a CPU device of one thread
// the time that this thread ran, which what else the machine does barely changes.
inline double now_ms(const Device& device) {
  if (device.name.kind == DeviceKind::cpu && device.threads == 1) {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
  }
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class Stopwatch {
 public:
  explicit Stopwatch(const Device& device) : device_(device), begin_ms_(now_ms(device)) {}

  double ms() const { return now_ms(device_) - begin_ms_; }
  double seconds() const { return ms() * 1e-3; }

 private:
  const Device& device_;
  const double begin_ms_;
};

// Of several runs.
struct Times {
  double median = 0;
  double best = 0;
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
  const Stopwatch watch(*stream.device);
  body();
  synchronize(stream);
  return watch.ms();
}

}  // namespace draftsmith::bench
