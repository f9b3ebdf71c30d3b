// Made-up gradients, sums and weights of several ranks, in host memory or on their devices.
#pragma once

#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "base/random.h"
#include "device/memory.h"
#include "device/stream.h"
#include "fabric/collective.h"

namespace draftsmith {

struct RankValues {
  std::vector<float> gradient;
  std::vector<double> sums;
  std::vector<std::byte> weights;

  bool operator==(const RankValues&) const = default;
};

inline std::vector<RankValues> make_values(std::int64_t ranks, std::int64_t size) {
  std::vector<RankValues> values(ranks);
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const Random random(7, RandomStream::noise, static_cast<std::uint32_t>(rank));
    for (std::int64_t i = 0; i < size; ++i) {
      values[rank].gradient.push_back(
          static_cast<float>(random.normal(i) * std::exp(random.normal(i + size))));
      values[rank].weights.push_back(static_cast<std::byte>(random.below(i, 256)));
    }
    for (std::int64_t i = 0; i < 7; ++i) values[rank].sums.push_back(random.normal(3 * size + i));
  }
  return values;
}

// The parts of `size` bytes that each of `ranks` writes: of unlike sizes, one of them empty.
inline std::vector<ExchangeRange> uneven_parts(std::int64_t ranks, std::int64_t size) {
  std::vector<ExchangeRange> parts(ranks);
  std::int64_t begin = 0;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const std::int64_t rest = size - begin;
    parts[rank] = {.begin = begin, .size = rank + 1 == ranks ? rest : rank == 1 ? 0 : rest / 3};
    begin += parts[rank].size;
  }
  return parts;
}

// Runs body(rank) on a thread for each rank, late by a little that differs.
template <typename Body>
void on_every_rank(std::int64_t ranks, const Body& body) {
  std::vector<std::thread> threads;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&body, rank] {
      std::this_thread::sleep_for(std::chrono::milliseconds((rank * 7) % 5));
      body(rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace draftsmith
