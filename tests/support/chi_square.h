// Pearson's chi-square test of counts against the distribution that they are said to come from.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace draftsmith {

// The chance that a chi-square variable of so many degrees of freedom exceeds the statistic: Q(degrees / 2,
// statistic / 2), from Q(1/2, x) = erfc(sqrt(x)), Q(1, x) = exp(-x) and
// Q(a + 1, x) = Q(a, x) + x^a exp(-x) / Gamma(a + 1).
inline double chi_square_tail(double statistic, std::int64_t degrees) {
  const double x = statistic / 2, last = static_cast<double>(degrees) / 2;
  double tail = degrees % 2 == 0 ? std::exp(-x) : std::erfc(std::sqrt(x));
  for (double a = degrees % 2 == 0 ? 1 : 0.5; a < last; a += 1) {
    tail += std::exp(a * std::log(x) - x - std::lgamma(a + 1));
  }
  return tail;
}

// The chance that draws from `probabilities` fit them as badly as these counts; 0 if something impossible was
// counted. Rare cells are taken together until 5 draws are expected, as the approximation asks for.
inline double fit_p_value(std::span<const std::int64_t> counts, std::span<const double> probabilities) {
  std::vector<std::size_t> order(counts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return probabilities[a] < probabilities[b]; });
  const auto draws = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
  double statistic = 0, expected = 0, found = 0;
  std::int64_t cells = 0;
  for (const std::size_t i : order) {
    if (probabilities[i] == 0 && counts[i] > 0) return 0;
    expected += draws * probabilities[i];
    found += static_cast<double>(counts[i]);
    if (expected < 5) continue;
    statistic += (found - expected) * (found - expected) / expected;
    ++cells;
    expected = found = 0;
  }
  return chi_square_tail(statistic, cells - 1);
}

}  // namespace draftsmith
