#include "fabric/local_collective.h"

#include <chrono>
#include <cstring>
#include <thread>

#include <gtest/gtest.h>

#include "base/random.h"

namespace draftsmith {
namespace {

struct Rank {
  std::vector<float> gradient;
  std::vector<double> sums;
};

std::vector<Rank> make_ranks(std::int64_t count, std::int64_t size) {
  std::vector<Rank> ranks(count);
  for (std::int64_t rank = 0; rank < count; ++rank) {
    const Random random(7, RandomStream::noise, static_cast<std::uint32_t>(rank));
    for (std::int64_t i = 0; i < size; ++i) {
      ranks[rank].gradient.push_back(
          static_cast<float>(random.normal(i) * std::exp(random.normal(i + size))));
    }
    for (std::int64_t i = 0; i < 7; ++i) ranks[rank].sums.push_back(random.normal(3 * size + i));
  }
  return ranks;
}

void attach(LocalCollective& collective, std::vector<Rank>& ranks) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    Rank& one = ranks[rank];
    collective.set_buffers(static_cast<std::int64_t>(rank),
                           {.gradient = {one.gradient.data(), static_cast<std::int64_t>(one.gradient.size())},
                            .sums = {one.sums.data(), static_cast<std::int64_t>(one.sums.size())}});
  }
}

TEST(LocalCollective, EveryRankHoldsTheSumInRankOrderWhateverTheTiming) {
  for (const std::int64_t count : {1, 2, 3, 5}) {
    const std::int64_t size = 5003;  // not a multiple of anything
    std::vector<Rank> ranks = make_ranks(count, size);
    Rank expected = ranks[0];
    for (std::int64_t rank = 1; rank < count; ++rank) {
      for (std::int64_t i = 0; i < size; ++i) expected.gradient[i] += ranks[rank].gradient[i];
      for (std::int64_t i = 0; i < 7; ++i) expected.sums[i] += ranks[rank].sums[i];
    }
    LocalCollective collective(count);
    attach(collective, ranks);
    std::vector<std::thread> threads;
    for (std::int64_t rank = 0; rank < count; ++rank) {
      threads.emplace_back([&collective, rank] {
        std::this_thread::sleep_for(std::chrono::milliseconds((rank * 7) % 5));
        EXPECT_TRUE(collective.all_reduce(rank));
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Rank& rank : ranks) {
      EXPECT_EQ(std::memcmp(rank.gradient.data(), expected.gradient.data(), size * sizeof(float)), 0);
      EXPECT_EQ(std::memcmp(rank.sums.data(), expected.sums.data(), 7 * sizeof(double)), 0);
    }
  }
}

TEST(LocalCollective, CancelWakesARankThatWaitsForOneThatNeverComes) {
  std::vector<Rank> ranks = make_ranks(2, 10);
  LocalCollective collective(2);
  attach(collective, ranks);
  std::thread waiting([&collective] { EXPECT_FALSE(collective.all_reduce(0)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  collective.cancel();
  waiting.join();
  EXPECT_FALSE(collective.all_reduce(1));  // for ever
}

}  // namespace
}  // namespace draftsmith
