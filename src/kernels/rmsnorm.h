// RMSNorm over the last dimension, with the residual addition before it:
//   s = input + addend        (s = input when there is no addend)
//   y = w * store(s * r),     r = 1 / sqrt(mean(s^2) + epsilon)       (the normed value is rounded to T first)
// Backward, with h = grad_y * w, n the width and g the gradient that reaches s from elsewhere:
//   grad_s  = g + r * h - s * r^3 * sum(h * s) / n        (the gradient of input and of addend alike)
//   grad_w += sum over rows of grad_y * s * r
// where grad_y is a row of grad_output times the row's weight, if rows have weights.
#pragma once

#include "tensor/tensor.h"

namespace draftsmith {

template <typename T>
struct RmsNormForward {
  Matrix<const T> input;      // [rows, width]
  Matrix<const T> addend;     // [rows, width], or empty
  Matrix<T> sum;              // [rows, width], written when there is an addend; may be input
  Vector<const T> weight;     // [width]
  Matrix<T> output;           // [rows, width]
  Vector<float> inverse_rms;  // [rows], saved; or empty
  float epsilon = 1e-6f;
};

template <typename T>
struct RmsNormBackward {
  Matrix<const T> sum;              // [rows, width]
  Vector<const T> weight;           // [width]
  Vector<const float> inverse_rms;  // [rows]
  Matrix<const T> grad_output;      // [rows, width]
  Vector<const float> row_weights;  // [rows], or empty for 1 each
  Matrix<const T> grad_residual;    // [rows, width]: g, or empty for 0; may be grad_sum
  Matrix<T> grad_sum;               // [rows, width]
  Vector<float> grad_weight;        // [width], added to
};

}  // namespace draftsmith
