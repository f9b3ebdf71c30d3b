#include "bench/step/ceilings.h"

#include "bench/step/random_fill.h"
#include "bench/step/timing.h"
#include "device/memory.h"
#include "kernels/tables.h"

namespace draftsmith::bench {
namespace {

constexpr int kRuns = 9;

}  // namespace

void launch_again(const Stream& stream, const std::vector<LaunchedProduct>& products) {
  const auto matmul = kernels_of<bf16>(*stream.device).matmul;  // the same for every storage type
  for (const LaunchedProduct& product : products) matmul(stream, *product.prepared, product.operands);
}

double product_ceiling(const Device& device) {
  constexpr std::int64_t kSize = 8192;
  Launcher<bf16> launch(device, kernels_of<bf16>(device));
  const std::int64_t bytes = kSize * kSize * static_cast<std::int64_t>(sizeof(bf16));
  Buffer buffers[3];
  for (Buffer& buffer : buffers) buffer = Buffer::on_device(device, bytes);
  const auto matrix = [&](int index) {
    return matrix_view(reinterpret_cast<bf16*>(buffers[index].data()), kSize, kSize);
  };
  const RandomTile<bf16> tile(1);
  for (int index = 0; index < 2; ++index) tile.fill(launch.stream(), matrix(index));
  const Matmul<bf16> product{.left = matrix(0), .right = matrix(1), .output = matrix(2)};
  launch.set_mode(LaunchMode::measure);
  launch(product);
  launch.set_mode(LaunchMode::run);
  const Buffer scratch = Buffer::on_device(device, launch.library().scratch_bytes());
  launch.library().set_scratch({scratch.data(), scratch.bytes()});
  std::vector<double> ms;
  for (int run = 0; run < kRuns + 3; ++run) {
    const double once = time_ms(launch.stream(), [&] { launch(product); });
    if (run >= 3) ms.push_back(once);
  }
  return 2.0 * kSize * kSize * kSize / median(ms) * 1e3;
}

}  // namespace draftsmith::bench
