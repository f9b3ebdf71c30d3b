#include "bench/step/ceilings.h"

namespace draftsmith::bench {
namespace {

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

MemoryReader::MemoryReader(const Device& device)
    : device_(device), buffer_(Buffer::on_device(device, std::int64_t{1} << 30)) {}

void MemoryReader::read() {
  const auto* lanes = reinterpret_cast<const Lanes*>(buffer_.data());
  const std::int64_t share = bytes() / static_cast<std::int64_t>(sizeof(Lanes)) / device_.threads;
  std::uint64_t sum = 0;
#pragma omp parallel for num_threads(device_.threads) reduction(+ : sum)
  for (int thread = 0; thread < device_.threads; ++thread) sum += sum_of(lanes + thread * share, share);
  DRAFTSMITH_CHECK(sum == 0, "a new buffer is cleared");
}

}  // namespace draftsmith::bench
