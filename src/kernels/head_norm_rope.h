// Per head: RMSNorm over head_dim (skipped when there is no weight), then rotary position embedding,
// half-split form.
//   u = w * store(x * r),  r = 1 / sqrt(mean(x^2) + epsilon);  u = x without a weight
//   (a, b) = (u[i], u[i + D/2])  ->  (a cos - b sin, b cos + a sin),  angle = position * inverse_frequency[i]
// Backward rotates by the opposite angle, then goes through the norm as in rmsnorm.h.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace draftsmith {

// cos and sin of position * inverse_frequency, times the attention factor of the rope scaling; fp32.
struct RopeTable {
  Matrix<const float> cosine;  // [positions, head_dim / 2]
  Matrix<const float> sine;    // [positions, head_dim / 2]
};

template <typename T>
struct HeadNormRopeForward {
  Matrix<const T> input;                 // [rows, heads * head_dim]
  Vector<const T> weight;                // [head_dim], or empty
  Vector<const std::int32_t> positions;  // [rows], below the table's rows
  RopeTable rope;
  Matrix<T> output;           // [rows, heads * head_dim]; may be input
  Matrix<float> inverse_rms;  // [rows, heads], saved; or empty
  std::int64_t head_dim = 0;
  float epsilon = 1e-6f;
};

template <typename T>
struct HeadNormRopeBackward {
  Matrix<const T> input;                 // [rows, heads * head_dim]
  Vector<const T> weight;                // [head_dim]
  Matrix<const float> inverse_rms;       // [rows, heads]
  Vector<const std::int32_t> positions;  // [rows]
  RopeTable rope;
  Matrix<const T> grad_output;  // [rows, heads * head_dim]
  Matrix<T> grad_input;         // [rows, heads * head_dim]; may be grad_output
  Vector<float> grad_weight;    // [head_dim], added to
  std::int64_t head_dim = 0;
};

}  // namespace draftsmith
