// Sums in a fixed order.
#pragma once

#include "tensor/tensor.h"

namespace draftsmith {

// output[c] += sum over rows of input[r][c]: the gradient of a bias.
template <typename T>
struct ColumnSum {
  Matrix<const T> input;  // [rows, width]
  Vector<float> output;   // [width], added to
};

// output[0] = sum of input^2, in double; NaN or infinity anywhere makes it non-finite.
template <typename T>
struct SumOfSquares {
  Vector<const float> input;
  Vector<double> output;  // [1]
};

}  // namespace draftsmith
