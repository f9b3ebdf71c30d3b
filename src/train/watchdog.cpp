#include "train/watchdog.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/error.h"

namespace draftsmith {
namespace {

// Whom a thread that waits is kept waiting by.
constexpr const char* waited_for(WaitFor wait) {
  constexpr const char* kTexts[] = {"a drafter to free a slot",
                                    "the feeder to pack a micro-batch",
                                    "a target to fill a slot",
                                    "a drafter's predictions",
                                    "the other drafters to join the exchange",
                                    "the checkpoint thread",
                                    "the log thread"};
  static_assert(std::size(kTexts) == static_cast<std::size_t>(WaitFor::count));
  return kTexts[static_cast<int>(wait)];
}

std::string who_waits_for_whom(const std::vector<const ThreadTimes*>& running) {
  std::string text;
  for (const ThreadTimes* times : running) {
    const auto wait = times->activity.waits_for();
    text +=
        fmt::format("{}{} {}", text.empty() ? "" : "; ", times->name,
                    wait ? fmt::format("waits for {}", waited_for(*wait)) : "is at work and does not end");
  }
  return text;
}

}  // namespace

double watchdog_limit_s(const std::optional<double>& configured, double warm_up_s) {
  constexpr double kLeast_s = 60, kWarmUps = 10;
  return configured.value_or(std::max(kLeast_s, kWarmUps * warm_up_s));
}

void Watchdog::check(const std::vector<const ThreadTimes*>& running) {
  std::int64_t changes = 0;
  bool outside = false;  // the pace of disk and terminal is not judged
  for (const ThreadTimes* times : running) {
    changes += times->activity.changes() + 1;  // so that an end counts too
    const auto wait = times->activity.waits_for();
    outside = outside || wait == WaitFor::checkpoint || wait == WaitFor::log;
  }
  const auto now = std::chrono::steady_clock::now();
  if (changes != changes_ || outside) {
    changes_ = changes;
    since_ = now;
    return;
  }
  const double still_s = std::chrono::duration<double>(now - since_).count();
  if (still_s < limit_s_) return;
  throw Error(
      fmt::format("nothing has gone on in this run for {:.3g} s: {}. Whoever is at work holds up the rest. "
                  "If it is only slow, "
                  "raise devices.watchdog_s ({:.3g} s now)",
                  still_s, who_waits_for_whom(running), limit_s_));
}

}  // namespace draftsmith
