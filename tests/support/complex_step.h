// Derivatives without cancellation: f'(x) = imag(f(x + i h)) / h for a function that is analytic in its
// arguments (Squire and Trapp 1998). With h far below the roundoff the result is exact to double's precision.
#pragma once

#include <complex>
#include <vector>

namespace draftsmith::test {

using Complex = std::complex<double>;

// The gradient of function(vector<Complex>) -> Complex at x: one evaluation per entry.
template <typename Function>
std::vector<double> complex_step_gradient(const std::vector<double>& x, const Function& function) {
  constexpr double kStep = 1e-30;
  std::vector<Complex> moved(x.begin(), x.end());
  std::vector<double> gradient(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    moved[i] = Complex(x[i], kStep);
    gradient[i] = function(moved).imag() / kStep;
    moved[i] = x[i];
  }
  return gradient;
}

// sum of weights[i] * values[i]: the scalar whose gradient is a backward pass of `weights`.
template <typename Scalar>
Scalar dot(const std::vector<double>& weights, const std::vector<Scalar>& values) {
  Scalar sum{};
  for (std::size_t i = 0; i < values.size(); ++i) sum += weights[i] * values[i];
  return sum;
}

}  // namespace draftsmith::test
