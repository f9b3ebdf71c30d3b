// Noise on the drafter's own copy of the target's features; the target, its logits and the labels never see it.
//   uniform:   feature += scale * u,  u in [-1, 1)
//   gaussian:  feature += scale * n,  n standard normal
// Element (row, column) of micro-batch `index` of a run has numbers of its own, whatever device draws them: a pure
// function of the seed, the index and the place.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace draftsmith {

enum class NoiseKind { none, uniform, gaussian };

template <typename T>
struct AddFeatureNoise {
  NoiseKind kind = NoiseKind::none;
  float scale = 0;
  std::uint64_t seed = 0;
  std::int64_t index = 0;  // of the micro-batch in the run
  Matrix<T> features;      // [rows, width], added to
};

}  // namespace draftsmith
