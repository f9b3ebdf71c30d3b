#include "kernels/adamw.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/vector.cuh"

namespace draftsmith::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kVector = 4;
constexpr std::int64_t kBlocksPerMultiprocessor = 8;

// What does not depend on the entry, rounded once from double.
struct Factors {
  float scale, beta1, beta2, rest1, rest2;
  float step;         // lr / (1 - beta1^t)
  float root_factor;  // 1 / sqrt(1 - beta2^t)
  float epsilon;
  float kept;  // 1 - lr * decay
};

template <typename T>
__device__ Factors factors_of(const AdamWUpdate<T>& arguments) {
  const UpdateState& state = arguments.state.data[0];
  const AdamWSettings& settings = arguments.settings;
  const double updates = static_cast<double>(state.updates), learning_rate = state.learning_rate;
  const double correction1 = 1 - pow(static_cast<double>(settings.beta1), updates);
  const double correction2 = 1 - pow(static_cast<double>(settings.beta2), updates);
  return {.scale = state.scale,
          .beta1 = settings.beta1,
          .beta2 = settings.beta2,
          .rest1 = static_cast<float>(1 - static_cast<double>(settings.beta1)),
          .rest2 = static_cast<float>(1 - static_cast<double>(settings.beta2)),
          .step = static_cast<float>(learning_rate / correction1),
          .root_factor = static_cast<float>(1 / sqrt(correction2)),
          .epsilon = settings.epsilon,
          .kept = static_cast<float>(1 - learning_rate * settings.weight_decay)};
}

template <typename T>
__global__ void prepare_update_kernel(PrepareUpdate<T> arguments) {
  UpdateState state = arguments.state.data[0];
  const double denominator = arguments.denominator.data[0];
  state.gradient_norm = sqrt(arguments.sum_of_squares.data[0]) / denominator;
  state.loss = arguments.loss_numerator.data[0] / denominator;
  state.scale = 0;
  state.learning_rate = arguments.learning_rate.data[0];
  state.applied = denominator > 0 && isfinite(state.gradient_norm) && isfinite(state.loss);
  if (state.applied) {
    const bool clips = arguments.clip > 0 && state.gradient_norm > arguments.clip;
    state.scale = static_cast<float>((clips ? arguments.clip / state.gradient_norm : 1.0) / denominator);
    ++state.updates;
  }
  arguments.state.data[0] = state;
}

template <typename T, int count>
__global__ void adamw_kernel(AdamWUpdate<T> arguments) {
  __shared__ Factors shared;
  if (!arguments.state.data[0].applied) return;
  if (threadIdx.x == 0) shared = factors_of(arguments);
  __syncthreads();
  const Factors factors = shared;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads * count;
  for (std::int64_t index = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * count;
       index < arguments.master.size; index += step) {
    float gradient[count], m[count], v[count], w[count];
    load(arguments.gradient.data + index, gradient);
    load(arguments.first_moment.data + index, m);
    load(arguments.second_moment.data + index, v);
    load(arguments.master.data + index, w);
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const float g = gradient[i] * factors.scale;
      m[i] = factors.beta1 * m[i] + factors.rest1 * g;
      v[i] = factors.beta2 * v[i] + factors.rest2 * g * g;
      const float root = sqrtf(v[i]) * factors.root_factor + factors.epsilon;
      const float kept = index + i < arguments.decayed ? factors.kept : 1.0f;
      w[i] = w[i] * kept - factors.step * m[i] / root;
    }
    store(arguments.first_moment.data + index, m);
    store(arguments.second_moment.data + index, v);
    store(arguments.master.data + index, w);
    store(arguments.weights.data + index, w);
  }
}

}  // namespace

template <typename T>
void prepare_update(const Stream& stream, const PrepareUpdate<T>& arguments) {
  prepare_update_kernel<<<1, 1, 0, native(stream)>>>(arguments);
  check_launch("preparing the update");
}

template <typename T>
void adamw_update(const Stream& stream, const AdamWUpdate<T>& arguments) {
  const std::int64_t size = arguments.master.size;
  DRAFTSMITH_CHECK(arguments.gradient.size == size && arguments.first_moment.size == size &&
                       arguments.second_moment.size == size && arguments.weights.size == size,
                   "one of each for every parameter");
  DRAFTSMITH_CHECK(arguments.decayed >= 0 && arguments.decayed <= size, "the decayed entries come first");
  if (size == 0) return;
  const auto launch = [&]<int count>() {
    const std::int64_t most = kBlocksPerMultiprocessor * stream.device->traits.multiprocessors;
    const std::int64_t blocks = std::min(most, div_ceil(size, kThreads * count));
    adamw_kernel<T, count><<<grid_of(blocks), kThreads, 0, native(stream)>>>(arguments);
  };
  const bool wide = is_wide(arguments.gradient) && is_wide(arguments.first_moment) &&
                    is_wide(arguments.second_moment) && is_wide(arguments.master) &&
                    is_wide(arguments.weights);
  wide ? launch.template operator()<kVector>() : launch.template operator()<1>();
  check_launch("AdamW");
}

template void prepare_update(const Stream&, const PrepareUpdate<float>&);
template void prepare_update(const Stream&, const PrepareUpdate<bf16>&);
template void adamw_update(const Stream&, const AdamWUpdate<float>&);
template void adamw_update(const Stream&, const AdamWUpdate<bf16>&);

}  // namespace draftsmith::cuda
