// Cross entropy of one chunk of logits against hard labels.
//   nll = log(sum(exp(logits))) - logits[label],   prediction = argmax(logits), the lowest index of equals
//   grad_logits = weight * (softmax(logits) - onehot(label))
// Logits are stored as T; maxima, sums and the softmax are float. Rows with label < 0 are unused: nll 0, prediction -1,
// gradient 0.
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

// grad_logits may be the logits themselves: an entry is read by whoever writes it, before it is written.
template <typename T>
struct CrossEntropyBackward {
  Matrix<const T> logits;             // [rows, vocabulary]
  Vector<const std::int32_t> labels;  // [rows]
  Vector<const float> log_sum_exp;    // [rows]
  Vector<const float> weights;        // [rows]
  Matrix<T> grad_logits;              // [rows, vocabulary]; may be logits
};

// predictions[i] = argmax(logits[i]), the lowest index of equals: of decoding, whose logits are float whatever T is.
template <typename T>
struct ArgmaxRows {
  Matrix<const float> logits;        // [rows, vocabulary]
  Vector<std::int32_t> predictions;  // [rows]
};

}  // namespace draftsmith
