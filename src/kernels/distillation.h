// Distillation of one chunk: the teacher's logits t beside the draft's logits s, softened by a temperature.
//   divergence = KL(softmax(t / temperature) || softmax(s / temperature))
// Backward of (1 - share) * nll + share * temperature^2 * divergence, which takes the place of the cross entropy's own
// (cross_entropy.h says where a row's weight comes in):
//   grad_logits = (1 - share) * (softmax(s) - onehot(label))
//               + share * temperature * (softmax(s / temperature) - softmax(t / temperature))
// Hinton, Vinyals and Dean, "Distilling the knowledge in a neural network", arXiv 1503.02531, section 2.
// Logits are stored as T; sums and softmaxes are float. Rows with label < 0 are unused: divergence 0, gradient 0.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace draftsmith {

template <typename T>
struct DistillationForward {
  Matrix<const T> logits, teacher_logits;  // [rows, vocabulary]
  Vector<const std::int32_t> labels;       // [rows]
  float temperature = 1;
  Vector<float> divergence;                        // [rows]
  Vector<float> log_sum_exp, teacher_log_sum_exp;  // [rows], of the logits over the temperature
};

// grad_logits may be the draft's logits: an entry is read by whoever writes it, before it is written.
template <typename T>
struct DistillationBackward {
  Matrix<const T> logits, teacher_logits;                // [rows, vocabulary]
  Vector<const std::int32_t> labels;                     // [rows]
  Vector<const float> hard_log_sum_exp;                  // [rows]: the cross entropy's
  Vector<const float> log_sum_exp, teacher_log_sum_exp;  // [rows]
  float share = 0;
  float temperature = 1;
  Matrix<T> grad_logits;  // [rows, vocabulary]; may be logits
};

}  // namespace draftsmith
