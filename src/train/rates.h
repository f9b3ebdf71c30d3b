// How fast a device multiplies in a shape of the run, the yardstick of its useful work, and how fast slots are copied,
// measured at warm-up; and how long a role takes, where that is asked for.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>

#include "device/stream.h"
#include "kernels/launcher.h"

namespace draftsmith {

// `work` a second, the best of a few runs of `call`, which does it and waits for the device.
template <typename Call>
double measure_rate(double work, const Call& call) {
  constexpr int kRuns = 5;
  double best_s = std::numeric_limits<double>::infinity();
  for (int run = 0; run < kRuns; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    best_s =
        std::min(best_s, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return work / best_s;
}

// How long `call`, which does the same work each time and waits for the device, takes: the median of a few runs, after one
// that is not counted.
template <typename Call>
double median_s(const Call& call) {
  constexpr int kRuns = 5;
  std::array<double, kRuns> runs_s{};
  call();
  for (double& run_s : runs_s) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    run_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  std::sort(runs_s.begin(), runs_s.end());
  return runs_s[kRuns / 2];
}

// 2 * multiply-adds a second. Overwrites the output.
template <typename T>
double measure_product_rate(Launcher<T>& launch, const Matmul<T>& product) {
  const double work = 2 * static_cast<double>(product.output.rows) *
                      static_cast<double>(product.output.columns) * static_cast<double>(product.left.columns);
  return measure_rate(work, [&] {
    launch(product);
    synchronize(launch.stream());
  });
}

}  // namespace draftsmith
