// Matrix products, prepared per shape and run by plan.
//   nt:  output[m,n] = left[m,k]  right[n,k]^T (+ bias[n])   a linear layer's forward, right is its weight
//   nn:  output[m,n] = left[m,k]  right[k,n]                 gradient of the layer's input
//   tn:  output[m,n] = left[k,m]^T right[k,n]                gradient of the layer's weight
// Operands are stored as T; products accumulate in fp32. Output is stored as T, or as float for weight
// gradients. With accumulate the product is added to the output. Where the output is stored as bf16, what is added to a
// product, that or a bias, may find the product rounded to it already.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "device/device.h"
#include "tensor/tensor.h"

namespace draftsmith {

enum class MatmulForm { nt, nn, tn };

// What a plan depends on. Strides are elements between rows as stored.
struct MatmulShape {
  MatmulForm form = MatmulForm::nt;
  std::int64_t rows = 0, columns = 0, depth = 0;  // m, n, k
  std::int64_t left_stride = 0, right_stride = 0, output_stride = 0;
  DType storage = DType::float32;  // of left, right and bias
  DType output = DType::float32;
  bool accumulate = false;
  bool bias = false;

  bool operator==(const MatmulShape&) const = default;
  std::string text() const;
  // The text and the strides: a name for all of it.
  std::string key() const;
};

// A product at one call: the views give the shape.
template <typename T, typename Out = T>
struct Matmul {
  MatmulForm form = MatmulForm::nt;
  Matrix<const T> left;
  Matrix<const T> right;
  Vector<const T> bias;  // [columns], or empty; nt only
  Matrix<Out> output;
  bool accumulate = false;
};

struct MatmulOperands {
  const void* left = nullptr;
  const void* right = nullptr;
  const void* bias = nullptr;
  void* output = nullptr;
  void* scratch = nullptr;  // at least PreparedMatmul::scratch_bytes
};

// One prepared product of one device; immutable, used by the device's thread only.
class PreparedMatmul {
 public:
  virtual ~PreparedMatmul() = default;
  MatmulShape shape;
  std::int64_t scratch_bytes = 0;
  std::string algorithm;  // what the plan prints
  std::string choice;  // prepares the same again on a device with the same facts; kernels/product_choices.h
};

// Products of few rows (decoding) read each weight once and give every row the same bits whatever the row
// count, so that verifying a block and plain decoding agree exactly. At most this many rows take that path,
// in the nt form.
inline constexpr std::int64_t kFewRows = 32;

}  // namespace draftsmith
