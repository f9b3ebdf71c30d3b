// How fast a device multiplies in a shape of the run: the yardstick of its useful work. Measured at warm-up.
#pragma once

#include <algorithm>
#include <chrono>
#include <limits>

#include "device/stream.h"
#include "kernels/launcher.h"

namespace draftsmith {

// 2 * multiply-adds a second, the best of a few runs. Overwrites the output.
template <typename T>
double measure_product_rate(Launcher<T>& launch, const Matmul<T>& product) {
  constexpr int kRuns = 5;
  double best_s = std::numeric_limits<double>::infinity();
  for (int run = 0; run < kRuns; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    launch(product);
    synchronize(launch.stream());
    best_s =
        std::min(best_s, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return 2 * static_cast<double>(product.output.rows) * static_cast<double>(product.output.columns) *
         static_cast<double>(product.left.columns) / best_s;
}

}  // namespace draftsmith
