// How long a thread of the pipeline waited, and for what. Each thread writes its own; read after it ended, but for
// what it is at now, which the main thread watches (train/watchdog.h).
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>

namespace draftsmith {

enum class WaitFor { free_slot, packed_slot, filled_slot, predictions, exchange, checkpoint, log, count };

constexpr const char* wait_name(WaitFor wait) {
  constexpr const char* kNames[] = {"a free slot",  "a packed micro-batch",  "features",      "predictions",
                                    "the exchange", "the checkpoint thread", "the log thread"};
  return kNames[static_cast<int>(wait)];
}

// What a thread is at. Written by it, read by any.
class Activity {
 public:
  Activity() = default;
  Activity(const Activity& other) : waits_for_(other.waits_for_.load()), changes_(other.changes_.load()) {}
  Activity& operator=(const Activity&) = delete;

  void wait(WaitFor wait) {
    waits_for_.store(static_cast<int>(wait), std::memory_order_relaxed);
    changes_.fetch_add(1, std::memory_order_relaxed);
  }
  void work() {
    waits_for_.store(kWorks, std::memory_order_relaxed);
    changes_.fetch_add(1, std::memory_order_relaxed);
  }

  // Nothing while the thread works.
  std::optional<WaitFor> waits_for() const {
    const int wait = waits_for_.load(std::memory_order_relaxed);
    return wait == kWorks ? std::nullopt : std::optional(static_cast<WaitFor>(wait));
  }
  // Grows whenever the thread begins or ends a wait.
  std::int64_t changes() const { return changes_.load(std::memory_order_relaxed); }

 private:
  static constexpr int kWorks = -1;
  std::atomic<int> waits_for_{kWorks};
  std::atomic<std::int64_t> changes_{0};
};

using Waits = std::array<double, static_cast<std::size_t>(WaitFor::count)>;  // seconds by WaitFor

// A part of a thread's time.
struct Stretch {
  double total_s = 0;
  Waits waits_s{};

  double waited_s() const { return std::accumulate(waits_s.begin(), waits_s.end(), 0.0); }
};

struct ThreadTimes {
  std::string name;
  double total_s = 0;  // from the first micro-batch to the last
  Waits waits_s{};
  // Of a drafter, until its first features came: no run can do without that wait.
  std::optional<Stretch> first_features;
  Activity activity;

  Stretch whole() const { return {.total_s = total_s, .waits_s = waits_s}; }
  // What came after the first features, of a drafter; else all.
  Stretch steady() const {
    Stretch rest = whole();
    if (!first_features) return rest;
    rest.total_s -= first_features->total_s;
    for (std::size_t wait = 0; wait < waits_s.size(); ++wait) {
      rest.waits_s[wait] -= first_features->waits_s[wait];
    }
    return rest;
  }
};

// Adds its lifetime to one number.
class AddTime {
 public:
  explicit AddTime(double& sum_s) : sum_s_(sum_s) {}
  ~AddTime() { sum_s_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }
  AddTime(const AddTime&) = delete;
  AddTime& operator=(const AddTime&) = delete;

 private:
  double& sum_s_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// The work's result; the time it takes is added to `sum_s`.
template <typename Work>
auto timed(double& sum_s, const Work& work) {
  const AddTime add(sum_s);
  return work();
}

// `call`'s result; the time it takes is added to the thread's waits.
template <typename Call>
auto waiting(ThreadTimes& times, WaitFor wait, const Call& call) {
  const AddTime add(times.waits_s[static_cast<std::size_t>(wait)]);
  times.activity.wait(wait);
  const auto result = call();
  times.activity.work();
  return result;
}

}  // namespace draftsmith
