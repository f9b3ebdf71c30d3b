#include "fabric/local_collective.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "fabric/ranks.h"
#include "support/expect_error.h"

namespace draftsmith {
namespace {

constexpr std::int64_t kSize = 5003;  // not a multiple of anything
const Stream kNoStream;

void attach(Collective& collective, std::vector<RankValues>& ranks) {
  for (std::int64_t rank = 0; rank < std::ssize(ranks); ++rank) {
    RankValues& one = ranks[rank];
    collective.set_buffers(rank, {.gradient = {one.gradient.data(), std::ssize(one.gradient)},
                                  .sums = {one.sums.data(), std::ssize(one.sums)},
                                  .weights = {one.weights.data(), std::ssize(one.weights)}});
  }
}

// Exchanges the gradient in ranges that end at `ends`, the sums and the weights.
std::vector<RankValues> exchanged(std::int64_t count, const std::vector<std::int64_t>& ends) {
  std::vector<RankValues> ranks = make_values(count, kSize);
  LocalCollective collective(count);
  attach(collective, ranks);
  const std::vector<ExchangeRange> parts = uneven_parts(count, kSize);
  on_every_rank(count, [&](std::int64_t rank) {
    std::int64_t begin = 0;
    for (const std::int64_t end : ends) {
      EXPECT_TRUE(collective.reduce_gradient(rank, {.begin = begin, .size = end - begin}, kNoStream));
      begin = end;
    }
    EXPECT_TRUE(collective.reduce_sums(rank, kNoStream));
    EXPECT_TRUE(collective.gather_weights(rank, parts, kNoStream));
    EXPECT_TRUE(collective.finish(rank, kNoStream));
  });
  return ranks;
}

TEST(LocalCollective, EveryRankHoldsTheSumInRankOrderWhateverTheTiming) {
  for (const std::int64_t count : {1, 2, 3, 5}) {
    const std::vector<RankValues> ranks = make_values(count, kSize);
    RankValues expected = ranks[0];
    for (std::int64_t rank = 1; rank < count; ++rank) {
      for (std::int64_t i = 0; i < kSize; ++i) expected.gradient[i] += ranks[rank].gradient[i];
      for (std::int64_t i = 0; i < 7; ++i) expected.sums[i] += ranks[rank].sums[i];
      const ExchangeRange part = uneven_parts(count, kSize)[rank];
      for (std::int64_t i = part.begin; i < part.begin + part.size; ++i) {
        expected.weights[i] = ranks[rank].weights[i];
      }
    }
    for (const RankValues& rank : exchanged(count, {kSize})) EXPECT_TRUE(rank == expected);
  }
}

TEST(LocalCollective, HowTheGradientIsCutIntoRangesChangesNoBit) {
  const std::vector<RankValues> whole = exchanged(3, {kSize});
  EXPECT_TRUE(exchanged(3, {1, 2, 1030, 4999, kSize}) == whole);
  EXPECT_TRUE(exchanged(3, {2500, kSize}) == whole);
}

TEST(LocalCollective, CancelWakesARankThatWaitsForOneThatNeverComes) {
  std::vector<RankValues> ranks = make_values(2, 10);
  LocalCollective collective(2);
  attach(collective, ranks);
  std::thread waiting([&collective] {
    EXPECT_TRUE(collective.reduce_gradient(0, {.begin = 0, .size = 10}, kNoStream));
    EXPECT_FALSE(collective.finish(0, kNoStream));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(collective.cancelled());
  collective.cancel();
  waiting.join();
  EXPECT_TRUE(collective.cancelled());
  EXPECT_FALSE(collective.reduce_sums(1, kNoStream));  // for ever
}

TEST(Collective, CpuDevicesBesideGpusAreRefused) {
  const Device cpu{.name = {DeviceKind::cpu, 0}}, gpu{.name = {DeviceKind::cuda, 0}};
  expect_error([&] { make_collective({cpu, gpu}); }, {"devices.drafters names both", "of one kind"});
}

TEST(Collective, OneDrafterExchangesNothingOnAnyDevice) {
  const auto collective = make_collective({Device{.name = {DeviceKind::cuda, 0}}});
  EXPECT_TRUE(collective->reduce_gradient(0, {.begin = 0, .size = 1}, kNoStream));
  EXPECT_TRUE(collective->finish(0, kNoStream));
}

}  // namespace
}  // namespace draftsmith
