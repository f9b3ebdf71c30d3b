// Rotary position embedding: frequencies of a RopeShape and the table of cosines and sines.
//   none:    f_i = theta^(-2i / head_dim)
//   llama3:  wavelengths beyond original_positions / low_frequency_factor are stretched by `factor`, those
//   below
//            original_positions / high_frequency_factor are kept, those between are interpolated (Llama 3.1)
#pragma once

#include <vector>

#include "kernels/head_norm_rope.h"
#include "model/shape.h"
#include "tensor/carver.h"

namespace draftsmith {

// [head_dim / 2]
std::vector<double> inverse_frequencies(const RopeShape& rope, std::int64_t head_dim);

struct RopeStorage {
  Matrix<float> cosine;  // [positions, head_dim / 2]
  Matrix<float> sine;    // [positions, head_dim / 2]

  RopeTable table() const { return {cosine, sine}; }
};
RopeStorage carve_rope(Carver& carver, std::int64_t positions, std::int64_t head_dim);

// Angles in double, rounded once.
void fill_rope(const RopeShape& rope, std::int64_t head_dim, const RopeStorage& storage);

}  // namespace draftsmith
