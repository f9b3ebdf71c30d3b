#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tensor/staged.h"

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

// Where yarn's ramp begins and ends, as pair indices. Both may lie outside 0 .. head_dim / 2.
struct YarnRamp {
  double first, last;

  double at(std::int64_t pair) const {
    return std::clamp((static_cast<double>(pair) - first) / (last - first), 0.0, 1.0);
  }
};

YarnRamp yarn_ramp(const RopeShape& rope, std::int64_t head_dim) {
  // The pair, as a real number, that turns `turns` times over the original positions.
  const auto pair_turning = [&](double turns) {
    const double positions = static_cast<double>(rope.original_positions);
    return static_cast<double>(head_dim) * std::log(positions / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(rope.theta));
  };
  double first = pair_turning(rope.beta_fast), last = pair_turning(rope.beta_slow);
  if (rope.truncate) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, static_cast<double>(head_dim - 1));
  if (first == last) last += 0.001;  // the published step in place of a division by zero
  return {first, last};
}

}  // namespace

double yarn_attention_factor(double factor) { return 0.1 * std::log(factor) + 1; }

std::vector<double> inverse_frequencies(const RopeShape& rope, std::int64_t head_dim) {
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < head_dim / 2; ++i) {
    frequencies.push_back(
        std::pow(rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim)));
  }
  switch (rope.scaling) {
    case RopeScaling::none:
      break;
    case RopeScaling::linear:
      for (double& frequency : frequencies) frequency /= rope.factor;
      break;
    case RopeScaling::llama3:
      for (double& frequency : frequencies) frequency = llama3_frequency(rope, frequency);
      break;
    case RopeScaling::yarn: {
      const YarnRamp ramp = yarn_ramp(rope, head_dim);
      for (std::int64_t i = 0; i < head_dim / 2; ++i) {
        const double stretched = ramp.at(i);
        frequencies[i] *= (1 - stretched) + stretched / rope.factor;
      }
      break;
    }
  }
  return frequencies;
}

RopeStorage carve_rope(Carver& carver, std::int64_t positions, std::int64_t head_dim) {
  return {.cosine = carver.matrix<float>(positions, head_dim / 2),
          .sine = carver.matrix<float>(positions, head_dim / 2)};
}

void fill_rope(const Stream& stream, const RopeShape& rope, std::int64_t head_dim,
               const RopeStorage& storage) {
  const Staged<float> cosine(stream, storage.cosine), sine(stream, storage.sine);
  const std::vector<double> frequencies = inverse_frequencies(rope, head_dim);
  for (std::int64_t position = 0; position < storage.cosine.rows; ++position) {
    for (std::int64_t i = 0; i < head_dim / 2; ++i) {
      const double angle = static_cast<double>(position) * frequencies[i];
      const std::int64_t place = position * (head_dim / 2) + i;
      cosine.host()[place] = static_cast<float>(rope.attention_factor * std::cos(angle));
      sine.host()[place] = static_cast<float>(rope.attention_factor * std::sin(angle));
    }
  }
  cosine.upload();
  sine.upload();
}

}  // namespace draftsmith
