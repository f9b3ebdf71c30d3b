// silu(gate) * up of rows that hold gate, then up, for any scalar.
#pragma once

#include <cmath>
#include <complex>
#include <vector>

namespace draftsmith::test {

template <typename Scalar>
std::vector<Scalar> swiglu_reference(const std::vector<Scalar>& gate_up, std::size_t width) {
  std::vector<Scalar> output;
  for (std::size_t first = 0; first < gate_up.size(); first += 2 * width) {
    for (std::size_t c = first; c < first + width; ++c) {
      output.push_back(gate_up[c] / (1.0 + std::exp(-gate_up[c])) * gate_up[c + width]);
    }
  }
  return output;
}

}  // namespace draftsmith::test
