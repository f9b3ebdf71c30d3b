#include <algorithm>

#include "bench/step/ceilings.h"
#include "bench/step/timing.h"
#include "device/memory.h"

namespace draftsmith::bench {
namespace {

constexpr int kRuns = 9;

using Lanes [[gnu::vector_size(64)]] = std::uint64_t;

// Four chains, so that latency is hidden; the sum is returned so that the reads are made.
std::uint64_t sum_of(const Lanes* lanes, std::int64_t count) {
  Lanes sums[4] = {};
  for (std::int64_t i = 0; i + 4 <= count; i += 4) {
    for (int k = 0; k < 4; ++k) sums[k] += lanes[i + k];
  }
  std::uint64_t sum = 0;
  for (const Lanes& one : sums) {
    for (int lane = 0; lane < 8; ++lane) sum += one[lane];
  }
  return sum;
}

}  // namespace

double read_bandwidth(const Device& device) {
  constexpr std::int64_t kBytes = std::int64_t{1} << 30;
  const Buffer buffer = Buffer::on_device(device, kBytes);
  const auto* lanes = reinterpret_cast<const Lanes*>(buffer.data());
  const std::int64_t share = kBytes / static_cast<std::int64_t>(sizeof(Lanes)) / device.threads;
  double best_s = 1e30;
  std::uint64_t sum = 0;
  for (int run = 0; run < kRuns; ++run) {
    const Stopwatch watch(device);
#pragma omp parallel for num_threads(device.threads) reduction(+ : sum)
    for (int thread = 0; thread < device.threads; ++thread) sum += sum_of(lanes + thread * share, share);
    best_s = std::min(best_s, watch.seconds());
  }
  DRAFTSMITH_CHECK(sum == 0, "a new buffer is cleared");
  return static_cast<double>(kBytes) / best_s;
}

}  // namespace draftsmith::bench
