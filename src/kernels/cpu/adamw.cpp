#include "kernels/adamw.h"

#include <algorithm>
#include <cmath>

#include "device/cpu/parallel.h"
#include "kernels/cpu/operations.h"
#include "kernels/cpu/vector_math.h"

namespace draftsmith::cpu {

namespace {

Lanes square_root(Lanes x) {
  for (int lane = 0; lane < kLanes; ++lane) x[lane] = std::sqrt(x[lane]);
  return x;
}

// What does not depend on the entry, rounded once from double.
struct Factors {
  float scale, beta1, beta2, rest1, rest2;
  float step;         // lr / (1 - beta1^t)
  float root_factor;  // 1 / sqrt(1 - beta2^t)
  float epsilon;
};

template <typename T>
Factors factors_of(const AdamWUpdate<T>& arguments) {
  const UpdateState& state = arguments.state[0];
  const AdamWSettings& settings = arguments.settings;
  const double updates = static_cast<double>(state.updates);
  const double correction1 = 1 - std::pow(static_cast<double>(settings.beta1), updates);
  const double correction2 = 1 - std::pow(static_cast<double>(settings.beta2), updates);
  return {.scale = state.scale,
          .beta1 = settings.beta1,
          .beta2 = settings.beta2,
          .rest1 = static_cast<float>(1 - static_cast<double>(settings.beta1)),
          .rest2 = static_cast<float>(1 - static_cast<double>(settings.beta2)),
          .step = static_cast<float>(state.learning_rate / correction1),
          .root_factor = static_cast<float>(1 / std::sqrt(correction2)),
          .epsilon = settings.epsilon};
}

template <typename T>
void update_range(const AdamWUpdate<T>& arguments, const Factors& factors, float kept, std::int64_t begin,
                  std::int64_t end) {
  for_lanes(begin, end, [&](auto place) {
    const Lanes gradient = place.load(arguments.gradient.data) * factors.scale;
    const Lanes m = factors.beta1 * place.load(arguments.first_moment.data) + factors.rest1 * gradient;
    const Lanes v =
        factors.beta2 * place.load(arguments.second_moment.data) + factors.rest2 * gradient * gradient;
    const Lanes root = square_root(v) * factors.root_factor + factors.epsilon;
    const Lanes w = place.load(arguments.master.data) * kept - factors.step * m / root;
    place.store(arguments.first_moment.data, m);
    place.store(arguments.second_moment.data, v);
    place.store(arguments.master.data, w);
    place.store(arguments.weights.data, w);
  });
}

}  // namespace

template <typename T>
void prepare_update(const Stream&, const PrepareUpdate<T>& arguments) {
  UpdateState& state = arguments.state[0];
  const double denominator = arguments.denominator[0];
  state.gradient_norm = std::sqrt(arguments.sum_of_squares[0]) / denominator;
  state.loss = arguments.loss_numerator[0] / denominator;
  state.scale = 0;
  state.learning_rate = arguments.learning_rate[0];
  state.applied = denominator > 0 && std::isfinite(state.gradient_norm) && std::isfinite(state.loss);
  if (!state.applied) return;
  const bool clips = arguments.clip > 0 && state.gradient_norm > arguments.clip;
  state.scale = static_cast<float>((clips ? arguments.clip / state.gradient_norm : 1.0) / denominator);
  ++state.updates;
}

template <typename T>
void adamw_update(const Stream& stream, const AdamWUpdate<T>& arguments) {
  const std::int64_t size = arguments.master.size, decayed = arguments.decayed;
  DRAFTSMITH_CHECK(arguments.gradient.size == size && arguments.first_moment.size == size &&
                       arguments.second_moment.size == size && arguments.weights.size == size,
                   "one of each for every parameter");
  DRAFTSMITH_CHECK(decayed >= 0 && decayed <= size, "the decayed entries come first");
  if (!arguments.state[0].applied) return;
  const Factors factors = factors_of(arguments);
  const float kept = static_cast<float>(1 - static_cast<double>(arguments.state[0].learning_rate) *
                                                arguments.settings.weight_decay);
  parallel_ranges(stream, size, size, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t middle = std::clamp(decayed, begin, end);
    update_range(arguments, factors, kept, begin, middle);
    update_range(arguments, factors, 1.0f, middle, end);
  });
}

template void prepare_update(const Stream&, const PrepareUpdate<float>&);
template void prepare_update(const Stream&, const PrepareUpdate<bf16>&);
template void adamw_update(const Stream&, const AdamWUpdate<float>&);
template void adamw_update(const Stream&, const AdamWUpdate<bf16>&);

}  // namespace draftsmith::cpu
