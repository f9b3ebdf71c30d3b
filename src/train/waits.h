// How long a thread of the pipeline waited, and for what. Each thread writes its own; read after it ended.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>

namespace draftsmith {

enum class WaitFor { free_slot, packed_slot, filled_slot, predictions, exchange, checkpoint, count };

constexpr const char* wait_name(WaitFor wait) {
  constexpr const char* kNames[] = {"a free slot", "a packed micro-batch", "features",
                                    "predictions", "the exchange",         "the checkpoint thread"};
  return kNames[static_cast<int>(wait)];
}

struct ThreadTimes {
  std::string name;
  double total_s = 0;  // from the first micro-batch to the last
  std::array<double, static_cast<std::size_t>(WaitFor::count)> waits_s{};
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

// `call`'s result; the time it takes is added to the thread's waits.
template <typename Call>
auto waiting(ThreadTimes& times, WaitFor wait, const Call& call) {
  const AddTime add(times.waits_s[static_cast<std::size_t>(wait)]);
  return call();
}

}  // namespace draftsmith
