// Plain decoding: one token at a time through the target with its head, as the decoder does it, over random weights.
#pragma once

#include "bench/step/shapes.h"
#include "kernels/launcher.h"
#include "model/rope.h"
#include "model/target.h"
#include "tensor/arena.h"

namespace draftsmith::bench {

template <typename T>
class DecodingBench {
 public:
  // context: tokens before the one that is decoded.
  DecodingBench(const Device& device, const Workload& workload, std::int64_t context);

  void token();  // queues one token's pass

  Launcher<T>& launcher() { return launch_; }
  std::int64_t weight_bytes() const;  // that a token reads: every layer, the head

 private:
  void lay_out(Carver& carver);
  void fill(std::int64_t context);

  const TargetShape& shape_;
  const std::int64_t capacity_;
  const Target<T> target_;
  Launcher<T> launch_;
  Arena arena_;
  TargetWeights<T> weights_;
  RopeStorage rope_;
  KeyValueStore<T> store_;
  TargetScratch<T> scratch_;
  Vector<std::int32_t> token_, position_, begin_, end_;  // [1]
  Matrix<float> logits_;                                 // [1, vocabulary]
  Vector<std::int32_t> choice_;                          // [1]
};

}  // namespace draftsmith::bench
