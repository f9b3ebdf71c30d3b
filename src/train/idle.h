// How long a device idled while its thread waited on the host. Launches go on behind the thread's back: a wait that
// they outlast costs nothing, and of a longer one only what came after them counts.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "device/stream.h"

namespace draftsmith {

// The device's thread only. Times are the device's own, between events that it reaches.
class IdleSpans {
 public:
  // In set-up: room for so many waits until the host waits for the stream.
  IdleSpans(const Device& device, std::int64_t most) {
    spans_.reserve(static_cast<std::size_t>(most));
    for (std::int64_t i = 0; i < most; ++i) spans_.emplace_back(device);
  }

  // `wait`'s result.
  template <typename Wait>
  auto around(const Stream& stream, const Wait& wait) {
    DRAFTSMITH_CHECK(used_ < spans_.size(), "the host waits for the stream after so many waits");
    Span& span = spans_[used_++];
    span.behind.record(stream);
    const auto result = wait();
    span.ready.record(stream);
    return result;
  }

  // Seconds of all waits since the last call; once the host has waited for the stream.
  double take_s() {
    double sum_s = 0;
    for (; used_ > 0; --used_) {
      sum_s += 1e-3 * Event::elapsed_ms(spans_[used_ - 1].behind, spans_[used_ - 1].ready);
    }
    return sum_s;
  }

 private:
  struct Span {
    explicit Span(const Device& device) : behind(device), ready(device) {}
    Event behind, ready;
  };
  std::vector<Span> spans_;
  std::size_t used_ = 0;
};

}  // namespace draftsmith
