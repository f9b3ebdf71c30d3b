// Rotary position embedding: frequencies of a RopeShape and the table of cosines and sines. With
// f_i = theta^(-2i / head_dim) for i < head_dim / 2, pair i turns at
//   none:    f_i
//   linear:  f_i / factor
//   llama3:  f_i where the wavelength 2 pi / f_i is below original_positions / high_frequency_factor,
//            f_i / factor where it is above original_positions / low_frequency_factor, between them
//            (1 - s) f_i / factor + s f_i,  s = (original_positions / wavelength - low) / (high - low)
//   yarn:    (1 - ramp_i) f_i + ramp_i f_i / factor,  ramp_i = (i - first) / (last - first) within 0 .. 1,
//            where pair first turns beta_fast times over the original positions and pair last beta_slow times
// Every cosine and sine is multiplied by attention_factor. Scaling does not depend on a sequence's length.
#pragma once

#include <vector>

#include "device/device.h"
#include "kernels/head_norm_rope.h"
#include "model/shape.h"
#include "tensor/carver.h"

namespace draftsmith {

// [head_dim / 2]
std::vector<double> inverse_frequencies(const RopeShape& rope, std::int64_t head_dim);

// The attention factor that yarn implies: 0.1 ln(factor) + 1.
double yarn_attention_factor(double factor);

struct RopeStorage {
  Matrix<float> cosine;  // [positions, head_dim / 2]
  Matrix<float> sine;    // [positions, head_dim / 2]

  RopeTable table() const { return {cosine, sine}; }
};
RopeStorage carve_rope(Carver& carver, std::int64_t positions, std::int64_t head_dim);

// Angles in double, rounded once. Blocks until the stream's device has them.
void fill_rope(const Stream& stream, const RopeShape& rope, std::int64_t head_dim,
               const RopeStorage& storage);

}  // namespace draftsmith
