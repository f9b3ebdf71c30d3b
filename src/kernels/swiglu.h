// y = silu(gate) * up,  silu(x) = x / (1 + exp(-x)).
// Backward, with s = 1 / (1 + exp(-gate)):
//   grad_gate = grad_y * up * s * (1 + gate * (1 - s)),   grad_up = grad_y * gate * s
#pragma once

#include "tensor/tensor.h"

namespace draftsmith {

template <typename T>
struct SwigluForward {
  Matrix<const T> gate_up;  // [rows, 2 * width]: gate, then up
  Matrix<T> output;         // [rows, width]
};

template <typename T>
struct SwigluBackward {
  Matrix<const T> gate_up;      // [rows, 2 * width]
  Matrix<const T> grad_output;  // [rows, width]
  Matrix<T> grad_gate_up;       // [rows, 2 * width]; may be gate_up
};

}  // namespace draftsmith
