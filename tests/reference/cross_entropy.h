// Negative log likelihood of hard labels, row by row, for any scalar.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <vector>

#include "support/devices.h"

namespace draftsmith::test {

// One value a row; 0 where the label is negative.
template <typename Scalar>
std::vector<Scalar> cross_entropy_reference(const std::vector<Scalar>& logits,
                                            const VisibleVector<std::int32_t>& labels) {
  const std::size_t vocabulary = logits.size() / labels.size();
  std::vector<Scalar> nll(labels.size());
  for (std::size_t row = 0; row < labels.size(); ++row) {
    if (labels[row] < 0) continue;
    const Scalar* values = logits.data() + row * vocabulary;
    Scalar largest = values[0], sum{};
    for (std::size_t c = 1; c < vocabulary; ++c) {
      if (std::real(values[c]) > std::real(largest)) largest = values[c];
    }
    for (std::size_t c = 0; c < vocabulary; ++c) sum += std::exp(values[c] - largest);
    nll[row] = largest + std::log(sum) - values[static_cast<std::size_t>(labels[row])];
  }
  return nll;
}

}  // namespace draftsmith::test
