// RMSNorm of rows, for any scalar, without the rounding between its steps.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <vector>

namespace draftsmith::test {

// y = w * s * r for rows of `weight.size()` columns.
template <typename Scalar, typename Weight>
std::vector<Scalar> rmsnorm_reference(const std::vector<Scalar>& sum, const std::vector<Weight>& weight,
                                      double epsilon) {
  const std::size_t width = weight.size();
  std::vector<Scalar> output(sum.size());
  for (std::size_t first = 0; first < sum.size(); first += width) {
    Scalar squares{};
    for (std::size_t c = 0; c < width; ++c) squares += sum[first + c] * sum[first + c];
    const Scalar r = 1.0 / std::sqrt(squares / static_cast<double>(width) + epsilon);
    for (std::size_t c = 0; c < width; ++c) output[first + c] = weight[c] * (sum[first + c] * r);
  }
  return output;
}

}  // namespace draftsmith::test
