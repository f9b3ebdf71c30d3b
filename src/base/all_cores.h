// Host work of set-up and of files, over all cores of the machine. Launches of a device are split by
// device/cpu/parallel.h: its split belongs to the bits of a run; nothing may depend on this one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/thread.h"

namespace draftsmith {

// Calls body(begin, end) for a range of [0, count) on each core and blocks until all have returned; in this thread alone
// when there is less than `least` for two cores each. The body throws nothing. Starts threads and ends them: not for a
// thread that must not take memory.
template <typename Body>
void on_all_cores(std::int64_t count, std::int64_t least, const Body& body) {
  const std::int64_t cores = std::max<std::int64_t>(1, std::thread::hardware_concurrency());
  const std::int64_t parts = std::min(cores, count / least);
  if (parts < 2) {
    if (count > 0) body(std::int64_t{0}, count);
    return;
  }
  std::vector<std::jthread> threads;
  for (std::int64_t part = 1; part < parts; ++part) {
    threads.push_back(start_thread("set-up", [&body, begin = count * part / parts,
                                              end = count * (part + 1) / parts] { body(begin, end); }));
  }
  body(std::int64_t{0}, count / parts);
}

}  // namespace draftsmith
