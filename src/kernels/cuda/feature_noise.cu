// The numbers are those of base/random.h; normal ones go through the GPU's logarithm and cosine in double, so
// that they are the CPU's but for the last bit of a double.
#include "base/random.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/vector.cuh"
#include "kernels/feature_noise.h"

namespace draftsmith::cuda {

namespace {

constexpr int kThreads = 256;

__device__ double normal(const Random& random, std::uint64_t index) {
  const double radius = sqrt(-2.0 * log1p(-random.uniform(2 * index)));
  return radius * cospi(2.0 * random.uniform(2 * index + 1));
}

template <typename T>
__global__ void add_feature_noise_kernel(AddFeatureNoise<T> arguments, Random random) {
  const std::int64_t row = blockIdx.x, columns = arguments.features.columns;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  if (column >= columns) return;
  const auto place = static_cast<std::uint64_t>(row * columns + column);
  const double number =
      arguments.kind == NoiseKind::uniform ? 2 * random.uniform(place) - 1 : normal(random, place);
  T& feature = arguments.features(row, column);
  // Rounded after the product and after the sum, as on the CPU.
  feature =
      to_stored<T>(__fadd_rn(to_float(feature), __fmul_rn(arguments.scale, static_cast<float>(number))));
}

}  // namespace

template <typename T>
void add_feature_noise(const Stream& stream, const AddFeatureNoise<T>& arguments) {
  if (arguments.kind == NoiseKind::none || arguments.scale == 0 || arguments.features.rows == 0) return;
  const auto low = static_cast<std::uint32_t>(arguments.index),
             high = static_cast<std::uint32_t>(arguments.index >> 32);
  const dim3 grid(grid_of(arguments.features.rows),
                  static_cast<unsigned>(div_ceil(arguments.features.columns, kThreads)));
  add_feature_noise_kernel<<<grid, kThreads, 0, native(stream)>>>(
      arguments, Random(arguments.seed, RandomStream::noise, low, high));
  check_launch("feature noise");
}

template void add_feature_noise(const Stream&, const AddFeatureNoise<float>&);
template void add_feature_noise(const Stream&, const AddFeatureNoise<bf16>&);

}  // namespace draftsmith::cuda
