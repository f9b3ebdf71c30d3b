#include "fabric/local_collective.h"

namespace draftsmith {
namespace {

// Sums shard `part` of `parts` over all buffers and writes it to all of them. Tiles stay in the caches.
template <typename E, typename Member>
void reduce_shard(const std::vector<ExchangeBuffers>& buffers, Member member, std::int64_t part) {
  constexpr std::int64_t kTile = 1024;
  const auto parts = static_cast<std::int64_t>(buffers.size());
  const std::int64_t size = (buffers[0].*member).size;
  const std::int64_t last = size * (part + 1) / parts;
  for (std::int64_t begin = size * part / parts; begin < last; begin += kTile) {
    const std::int64_t end = begin + kTile < last ? begin + kTile : last;
    E* const total = (buffers[0].*member).data;
    for (std::int64_t rank = 1; rank < parts; ++rank) {
      const E* const addend = (buffers[rank].*member).data;
      for (std::int64_t i = begin; i < end; ++i) total[i] += addend[i];
    }
    for (std::int64_t rank = 1; rank < parts; ++rank) {
      E* const copy = (buffers[rank].*member).data;
      for (std::int64_t i = begin; i < end; ++i) copy[i] = total[i];
    }
  }
}

}  // namespace

bool LocalCollective::all_reduce(std::int64_t rank) {
  if (buffers_.size() == 1) return true;
  if (!barrier_.arrive()) return false;  // everybody's addends are there
  reduce_shard<float>(buffers_, &ExchangeBuffers::gradient, rank);
  reduce_shard<double>(buffers_, &ExchangeBuffers::sums, rank);
  return barrier_.arrive();  // everybody's shard is written
}

}  // namespace draftsmith
