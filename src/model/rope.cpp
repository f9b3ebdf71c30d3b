#include "model/rope.h"

#include <cmath>
#include <numbers>

namespace draftsmith {
namespace {

double llama3_frequency(const RopeShape& rope, double frequency) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  const double original = static_cast<double>(rope.original_positions);
  if (wavelength < original / rope.high_frequency_factor) return frequency;
  if (wavelength > original / rope.low_frequency_factor) return frequency / rope.factor;
  const double smooth = (original / wavelength - rope.low_frequency_factor) /
                        (rope.high_frequency_factor - rope.low_frequency_factor);
  return (1 - smooth) * frequency / rope.factor + smooth * frequency;
}

}  // namespace

std::vector<double> inverse_frequencies(const RopeShape& rope, std::int64_t head_dim) {
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < head_dim / 2; ++i) {
    const double plain = std::pow(rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    frequencies.push_back(rope.scaling == RopeScaling::llama3 ? llama3_frequency(rope, plain) : plain);
  }
  return frequencies;
}

RopeStorage carve_rope(Carver& carver, std::int64_t positions, std::int64_t head_dim) {
  return {.cosine = carver.matrix<float>(positions, head_dim / 2),
          .sine = carver.matrix<float>(positions, head_dim / 2)};
}

void fill_rope(const RopeShape& rope, std::int64_t head_dim, const RopeStorage& storage) {
  const std::vector<double> frequencies = inverse_frequencies(rope, head_dim);
  for (std::int64_t position = 0; position < storage.cosine.rows; ++position) {
    for (std::int64_t i = 0; i < head_dim / 2; ++i) {
      const double angle = static_cast<double>(position) * frequencies[i];
      storage.cosine(position, i) = static_cast<float>(std::cos(angle));
      storage.sine(position, i) = static_cast<float>(std::sin(angle));
    }
  }
}

}  // namespace draftsmith
