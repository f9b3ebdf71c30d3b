// Cross entropy of one chunk of logits against hard labels.
//   nll = log(sum(exp(logits))) - logits[label],   prediction = argmax(logits), the lowest index of equals
//   d nll / d logits = softmax(logits) - onehot(label)
// Logits are stored as T; maxima, sums and the softmax are float. Rows with label < 0 are unused: nll 0, prediction -1,
// gradient 0. What a row's nll counts in the loss is known only when its block's are, and a product's row scales with
// its left operand's: so the gradient is that of the nll alone, and the weight comes in behind the product with the head.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace draftsmith {

template <typename T>
struct CrossEntropyForward {
  Matrix<const T> logits;             // [rows, vocabulary]
  Vector<const std::int32_t> labels;  // [rows]
  Vector<float> nll;                  // [rows]
  Vector<float> log_sum_exp;          // [rows]
  Vector<std::int32_t> predictions;   // [rows]
};

// Forward and backward in one visit of a row, which a fast implementation reads once and writes once.
template <typename T>
struct CrossEntropyWithGradient {
  Matrix<T> logits;                   // [rows, vocabulary]; on return the gradient of nll
  Vector<const std::int32_t> labels;  // [rows]
  Vector<float> nll;                  // [rows]
  Vector<std::int32_t> predictions;   // [rows]
};

// predictions[i] = argmax(logits[i]), the lowest index of equals: of decoding, whose logits are float whatever T is.
template <typename T>
struct ArgmaxRows {
  Matrix<const float> logits;        // [rows, vocabulary]
  Vector<std::int32_t> predictions;  // [rows]
};

}  // namespace draftsmith
