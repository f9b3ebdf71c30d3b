#include "kernels/feature_noise.h"

#include "base/random.h"
#include "device/cpu/parallel.h"
#include "kernels/cpu/operations.h"

namespace draftsmith::cpu {

template <typename T>
void add_feature_noise(const Stream& stream, const AddFeatureNoise<T>& arguments) {
  if (arguments.kind == NoiseKind::none || arguments.scale == 0) return;
  const Matrix<T> features = arguments.features;
  const auto low = static_cast<std::uint32_t>(arguments.index),
             high = static_cast<std::uint32_t>(arguments.index >> 32);
  const Random random(arguments.seed, RandomStream::noise, low, high);
  constexpr std::int64_t kWorkPerNumber = 64;
  const std::int64_t work = features.rows * features.columns * kWorkPerNumber;
  parallel_ranges(stream, features.rows, work, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t column = 0; column < features.columns; ++column) {
        const auto place = static_cast<std::uint64_t>(row * features.columns + column);
        const double number =
            arguments.kind == NoiseKind::uniform ? 2 * random.uniform(place) - 1 : random.normal(place);
        T& feature = features(row, column);
        feature = static_cast<T>(static_cast<float>(feature) + arguments.scale * static_cast<float>(number));
      }
    }
  });
}

template void add_feature_noise(const Stream&, const AddFeatureNoise<float>&);
template void add_feature_noise(const Stream&, const AddFeatureNoise<bf16>&);

}  // namespace draftsmith::cpu
