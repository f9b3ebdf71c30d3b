// RMSNorm per head, then rotation, for any scalar, without the rounding between the steps.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <vector>

#include "reference/rmsnorm.h"

namespace draftsmith::test {

// One row of the table for each row of the input; head_dim is twice its width.
struct Rotation {
  std::vector<std::vector<double>> cosine, sine;
};

// An empty weight skips the norm.
template <typename Scalar>
std::vector<Scalar> head_norm_rope_reference(const std::vector<Scalar>& input,
                                             const std::vector<Scalar>& weight, const Rotation& rotation,
                                             double epsilon) {
  const std::size_t rows = rotation.cosine.size(), half = rotation.cosine[0].size();
  std::vector<Scalar> normed = weight.empty() ? input : rmsnorm_reference(input, weight, epsilon);
  std::vector<Scalar> output(input.size());
  const std::size_t columns = input.size() / rows;
  for (std::size_t first = 0; first < input.size(); first += 2 * half) {
    const std::size_t row = first / columns;
    for (std::size_t i = 0; i < half; ++i) {
      const Scalar a = normed[first + i], b = normed[first + half + i];
      const double c = rotation.cosine[row][i], s = rotation.sine[row][i];
      output[first + i] = a * c - b * s;
      output[first + half + i] = b * c + a * s;
    }
  }
  return output;
}

}  // namespace draftsmith::test
