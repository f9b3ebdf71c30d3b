// AdamW (Loshchilov and Hutter, arXiv 1711.05101) over one flat range of fp32 master weights, in one pass:
//   g = gradient * scale,  m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2
//   w = w - lr * decay * w;  w = w - lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
// The scale divides by the loss denominator and clips the global norm; it is made on the device, and the learning rate
// is read from memory, so a step needs no round trip to the host and can be replayed as it was recorded. When the gradient or the loss is not finite nothing is changed and
// `applied` is 0.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace draftsmith {

// One per device, in its memory.
struct UpdateState {
  double gradient_norm = 0;  // of the mean gradient, before clipping
  double loss = 0;
  float scale = 0;  // of the summed gradient
  float learning_rate = 0;
  std::int32_t applied = 0;
  std::int64_t updates = 0;  // t: updates applied so far
};

// state.scale = min(1, clip / norm) / denominator, with norm = sqrt(sum_of_squares) / denominator. A
// denominator of 0 (nothing supervised in the whole step) applies nothing.
template <typename T>
struct PrepareUpdate {
  Vector<const double> sum_of_squares;  // [1], of the summed gradient
  Vector<const double> loss_numerator;  // [1]
  Vector<const double> denominator;     // [1]
  Vector<const float> learning_rate;    // [1], copied to the state; may lie in pinned memory of the host
  float clip = 0;                       // 0: no clipping
  Vector<UpdateState> state;            // [1]
};

struct AdamWSettings {
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f, weight_decay = 0;
};

template <typename T>
struct AdamWUpdate {
  AdamWSettings settings;
  std::int64_t decayed = 0;         // the first `decayed` entries decay, the rest (norms, biases) do not
  Vector<const UpdateState> state;  // [1]; its `updates` counts this update
  Vector<const float> gradient;     // [parameters], summed over the step
  Vector<float> master;             // [parameters]
  Vector<float> first_moment;       // [parameters]
  Vector<float> second_moment;      // [parameters]
  Vector<T> weights;                // [parameters]: the master rounded to T
};

}  // namespace draftsmith
