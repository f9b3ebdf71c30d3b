#include "fabric/local_collective.h"

#include <chrono>
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

LocalCollective::LocalCollective(std::int64_t ranks) : buffers_(ranks), queued_(ranks), barrier_(ranks) {
  constexpr std::size_t kMostRanges = 1024;  // more than a step has
  for (Queued& queued : queued_) queued.gradient.reserve(kMostRanges);
}

bool LocalCollective::reduce_gradient(std::int64_t rank, const ExchangeRange& range, const Stream&) {
  std::vector<ExchangeRange>& gradient = queued_[rank].gradient;
  DRAFTSMITH_CHECK(gradient.size() < gradient.capacity(), "a step has few ranges, and finish() ends it");
  gradient.push_back(range);
  return !cancelled();
}

bool LocalCollective::reduce_sums(std::int64_t rank, const Stream&) {
  queued_[rank].sums = true;
  return !cancelled();
}

bool LocalCollective::gather_weights(std::int64_t rank, const std::vector<ExchangeRange>& parts,
                                     const Stream&) {
  queued_[rank].weights = &parts;
  return !cancelled();
}

void LocalCollective::exchange(std::int64_t rank) {
  const Queued& queued = queued_[rank];
  for (const ExchangeRange& range : queued.gradient) {
    reduce_part(buffers_, &ExchangeBuffers::gradient, range, rank);
  }
  if (queued.sums) {
    reduce_part(buffers_, &ExchangeBuffers::sums, {.begin = 0, .size = buffers_[0].sums.size}, rank);
  }
  if (queued.weights == nullptr) return;
  for (std::int64_t from = 0; from < std::ssize(*queued.weights); ++from) {
    if (from == rank) continue;
    const ExchangeRange& part = (*queued.weights)[from];
    std::memcpy(buffers_[rank].weights.data + part.begin, buffers_[from].weights.data + part.begin,
                static_cast<std::size_t>(part.size));
  }
}

bool LocalCollective::finish(std::int64_t rank, const Stream&) {
  const auto began = std::chrono::steady_clock::now();
  if (buffers_.size() > 1) {
    if (!barrier_.arrive()) return false;  // everybody's addends are there
    exchange(rank);
    if (!barrier_.arrive()) return false;  // everybody's parts are written
  }
  Queued& queued = queued_[rank];
  queued.gradient.clear();
  queued.sums = false;
  queued.weights = nullptr;
  queued.exposed_s += std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return !cancelled();
}

void LocalCollective::cancel() {
  cancelled_ = true;
  barrier_.cancel();
}

}  // namespace draftsmith
