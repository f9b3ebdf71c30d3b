// Sums over rows, column by column, in an order that depends on neither the number of threads nor the row
// stride: columns are split over threads, rows are added in chunks whose sums are added in turn.
#pragma once

#include <algorithm>

#include "base/arithmetic.h"
#include "device/cpu/parallel.h"
#include "kernels/cpu/vector_math.h"

namespace draftsmith::cpu {

// output[c] += sum over rows of term(row, place), for width columns.
template <typename Term>
void add_column_sums(const Stream& stream, std::int64_t rows, std::int64_t width, float* output,
                     const Term& term) {
  constexpr std::int64_t kRowChunk = 64;
  const std::int64_t groups = div_ceil(width, kLanes);
  parallel_ranges(stream, groups, rows * groups, [&](std::int64_t begin, std::int64_t end) {
    for_lanes(begin * kLanes, std::min(end * kLanes, width), [&](auto place) {
      Lanes total{};
      for (std::int64_t first = 0; first < rows; first += kRowChunk) {
        const std::int64_t last = std::min(first + kRowChunk, rows);
        Lanes chunk{};
        for (std::int64_t row = first; row < last; ++row) chunk += term(row, place);
        total += chunk;
      }
      place.store(output, place.load(output) + total);
    });
  });
}

}  // namespace draftsmith::cpu
