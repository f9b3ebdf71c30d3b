// A mixture of experts in double: which experts a row takes, their weights, and the sum of their outputs.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace draftsmith::test {

struct RouteReference {
  std::vector<int> experts;     // ascending
  std::vector<double> weights;  // of each
};

inline RouteReference route_reference(const std::vector<double>& logits, int chosen, bool normalise) {
  std::vector<int> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  const double largest = logits[static_cast<std::size_t>(order[0])];
  order.resize(static_cast<std::size_t>(chosen));
  std::sort(order.begin(), order.end());
  const auto weight = [&](int expert) {
    return std::exp(logits[static_cast<std::size_t>(expert)] - largest);
  };
  double total = 0;
  if (normalise) {
    for (const int expert : order) total += weight(expert);
  } else {
    for (std::size_t expert = 0; expert < logits.size(); ++expert) total += weight(static_cast<int>(expert));
  }
  RouteReference route{.experts = order, .weights = {}};
  for (const int expert : order) route.weights.push_back(weight(expert) / total);
  return route;
}

}  // namespace draftsmith::test
