// Sums over rows, column by column, in an order that depends on neither the number of threads nor the row
// stride: columns are split over threads, rows are added in chunks whose sums are added in turn.
#pragma once

#include <algorithm>

#include "base/arithmetic.h"
#include "device/cpu/parallel.h"
#include "kernels/cpu/vector_math.h"

namespace draftsmith::cpu {

inline constexpr std::int64_t kRowChunk = 64;

// Adds the sums of `count` neighbouring vectors of columns, from `place` on.
template <int count, typename Place, typename Term>
void add_vectors(std::int64_t rows, Place place, float* output, const Term& term) {
  Lanes totals[count] = {};
  for (std::int64_t first = 0; first < rows; first += kRowChunk) {
    const std::int64_t last = std::min(first + kRowChunk, rows);
    Lanes chunk[count] = {};
    for (std::int64_t row = first; row < last; ++row) {
      for (int v = 0; v < count; ++v) chunk[v] += term(row, place.after(v));
    }
    for (int v = 0; v < count; ++v) totals[v] += chunk[v];
  }
  for (int v = 0; v < count; ++v) {
    const Place at = place.after(v);
    at.store(output, at.load(output) + totals[v]);
  }
}

// output[c] += sum over rows of term(row, place), for width columns.
template <typename Term>
void add_column_sums(const Stream& stream, std::int64_t rows, std::int64_t width, float* output,
                     const Term& term) {
  constexpr int kVectorsAtOnce = 4;  // 256 bytes of a row of floats: whole pages of narrow strips are slow
  constexpr std::int64_t kStrip = kVectorsAtOnce * kLanes;
  const std::int64_t strips = div_ceil(width, kStrip);
  parallel_ranges(stream, strips, rows * width / kLanes, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t last = std::min(end * kStrip, width);
    std::int64_t column = begin * kStrip;
    for (; column + kStrip <= last; column += kStrip) {
      add_vectors<kVectorsAtOnce>(rows, WholeLanes{column}, output, term);
    }
    for_lanes(column, last, [&](auto place) { add_vectors<1>(rows, place, output, term); });
  });
}

}  // namespace draftsmith::cpu
