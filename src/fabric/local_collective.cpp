#include "fabric/local_collective.h"

#include <cstring>

namespace draftsmith {
namespace {

// Sums part `part` of the range over all buffers and writes it to all of them. Tiles stay in the caches.
template <typename E>
void reduce_part(const std::vector<ExchangeBuffers>& buffers, Vector<E> ExchangeBuffers::*member,
                 const ExchangeRange& range, std::int64_t part) {
  constexpr std::int64_t kTile = 1024;
  const auto parts = static_cast<std::int64_t>(buffers.size());
  const std::int64_t last = range.begin + range.size * (part + 1) / parts;
  for (std::int64_t begin = range.begin + range.size * part / parts; begin < last; begin += kTile) {
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

// The parts of a range are written while other ranks may already sum the next range: ranges do not overlap,
// and finish() waits for everybody's parts.
bool LocalCollective::reduce_gradient(std::int64_t rank, const ExchangeRange& range, const Stream&) {
  if (alone()) return !cancelled();
  if (!barrier_.arrive()) return false;  // everybody's addends are there
  reduce_part(buffers_, &ExchangeBuffers::gradient, range, rank);
  return true;
}

bool LocalCollective::reduce_sums(std::int64_t rank, const Stream&) {
  if (alone()) return !cancelled();
  if (!barrier_.arrive()) return false;
  reduce_part(buffers_, &ExchangeBuffers::sums, {.begin = 0, .size = buffers_[0].sums.size}, rank);
  return true;
}

bool LocalCollective::gather_weights(std::int64_t rank, const std::vector<ExchangeRange>& parts,
                                     const Stream&) {
  if (alone()) return !cancelled();
  if (!barrier_.arrive()) return false;  // everybody's part is written
  for (std::size_t from = 0; from < parts.size(); ++from) {
    if (static_cast<std::int64_t>(from) == rank) continue;
    const ExchangeRange& part = parts[from];
    std::memcpy(buffers_[rank].weights.data + part.begin, buffers_[from].weights.data + part.begin,
                static_cast<std::size_t>(part.size));
  }
  return true;
}

bool LocalCollective::finish(std::int64_t, const Stream&) {
  return alone() ? !cancelled() : barrier_.arrive();
}

bool LocalCollective::all_reduce(std::int64_t rank) {
  return reduce_gradient(rank, {.begin = 0, .size = buffers_[rank].gradient.size}, {}) &&
         reduce_sums(rank, {}) && finish(rank, {});
}

void LocalCollective::cancel() {
  cancelled_ = true;
  barrier_.cancel();
}

}  // namespace draftsmith
