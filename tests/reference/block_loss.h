// Weights of one block's supervised slots, straight from the formulas.
#pragma once

#include <cmath>
#include <vector>

#include "kernels/block_loss.h"

namespace draftsmith::test {

// `offsets` and `nll` of the block's supervised slots, in order.
inline std::vector<double> block_weights_reference(const LossSettings& settings,
                                                   const std::vector<int>& offsets,
                                                   const std::vector<double>& nll) {
  std::vector<double> weights(offsets.size());
  for (std::size_t k = 0; k < offsets.size(); ++k) {
    if (settings.kind == LossKind::dflash) {
      weights[k] =
          settings.gamma == 0 ? 1 : std::exp(-(offsets[k] - 1) / static_cast<double>(settings.gamma));
      continue;
    }
    for (std::size_t j = k; j < offsets.size(); ++j) {
      double confidence = 1;
      for (std::size_t i = 0; i <= j; ++i) {
        confidence *= (1.0 - settings.alpha) * std::exp(-nll[i]) + settings.alpha;
      }
      weights[k] += confidence;
    }
  }
  return weights;
}

}  // namespace draftsmith::test
