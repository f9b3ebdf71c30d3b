// Runs where there are two GPUs; skipped elsewhere.
#include "fabric/cuda/nccl_collective.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "fabric/ranks.h"

namespace draftsmith {
namespace {

constexpr std::int64_t kSize = 3 * 1000 * 1000 + 7;
constexpr std::int64_t kRanks = 2;

// A rank's values on its GPU.
struct GpuRank {
  GpuRank(int index, const RankValues& values) : device(open_device({DeviceKind::cuda, index}, 1, 1)) {
    gradient = Buffer::on_device(device, std::ssize(values.gradient) * 4);
    weights = Buffer::on_device(device, std::ssize(values.weights));
    sums = Buffer::on_device(device, std::ssize(values.sums) * 8);
    const Stream stream{.device = &device};
    copy_bytes(stream, gradient.data(), values.gradient.data(), gradient.bytes());
    copy_bytes(stream, weights.data(), values.weights.data(), weights.bytes());
    copy_bytes(stream, sums.data(), values.sums.data(), sums.bytes());
    synchronize(stream);
  }
  ExchangeBuffers buffers() const {
    return {.gradient = {reinterpret_cast<float*>(gradient.data()), gradient.bytes() / 4},
            .sums = {reinterpret_cast<double*>(sums.data()), sums.bytes() / 8},
            .weights = {weights.data(), weights.bytes()}};
  }
  RankValues values() const {
    RankValues values{.gradient = std::vector<float>(gradient.bytes() / 4),
                      .sums = std::vector<double>(sums.bytes() / 8),
                      .weights = std::vector<std::byte>(weights.bytes())};
    const Stream stream{.device = &device};
    copy_bytes(stream, values.gradient.data(), gradient.data(), gradient.bytes());
    copy_bytes(stream, values.weights.data(), weights.data(), weights.bytes());
    copy_bytes(stream, values.sums.data(), sums.data(), sums.bytes());
    synchronize(stream);
    return values;
  }

  const Device device;
  Buffer gradient, weights, sums;
};

class NcclCollectiveTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::ssize(list_gpus().gpus) < kRanks) GTEST_SKIP() << "there are no two GPUs";
    collective =
        make_collective({open_device({DeviceKind::cuda, 0}, 1, 1), open_device({DeviceKind::cuda, 1}, 1, 1)});
    const std::vector<RankValues> same(kRanks, make_values(1, kSize).front());
    make_ranks(same);
    collective->connect();
  }

  void make_ranks(const std::vector<RankValues>& values) {
    ranks.clear();
    for (std::int64_t rank = 0; rank < kRanks; ++rank) {
      ranks.push_back(std::make_unique<GpuRank>(static_cast<int>(rank), values[rank]));
      collective->set_buffers(rank, ranks.back()->buffers());
    }
  }

  std::unique_ptr<Collective> collective;
  std::vector<std::unique_ptr<GpuRank>> ranks;
};

TEST_F(NcclCollectiveTest, TwoRanksFindTheExactSumOfTwoTwentyTimes) {
  const std::vector<RankValues> values = make_values(kRanks, kSize);
  RankValues expected = values[0];
  for (std::int64_t i = 0; i < kSize; ++i) expected.gradient[i] += values[1].gradient[i];
  for (std::int64_t i = 0; i < 7; ++i) expected.sums[i] += values[1].sums[i];
  const std::vector<ExchangeRange> parts = uneven_parts(kRanks, kSize);
  const auto second = values[1].weights.begin() + parts[1].begin;
  std::copy_n(second, parts[1].size, expected.weights.begin() + parts[1].begin);
  for (int repeat = 0; repeat < 20; ++repeat) {
    make_ranks(values);
    on_every_rank(kRanks, [&](std::int64_t rank) {
      attach_thread(ranks[rank]->device);
      const Stream stream{.device = &ranks[rank]->device};
      const std::int64_t cut = 1000003;
      EXPECT_TRUE(collective->reduce_gradient(rank, {.begin = cut, .size = kSize - cut}, stream));
      EXPECT_TRUE(collective->reduce_gradient(rank, {.begin = 0, .size = cut}, stream));
      EXPECT_TRUE(collective->reduce_sums(rank, stream));
      EXPECT_TRUE(collective->gather_weights(rank, parts, stream));
      EXPECT_TRUE(collective->finish(rank, stream));
      synchronize(stream);
      EXPECT_GE(collective->take_exposed_s(rank), 0);
    });
    collective->check();
    for (const auto& rank : ranks) {
      const RankValues found = rank->values();
      EXPECT_TRUE(found.gradient == expected.gradient) << "repeat " << repeat;
      EXPECT_TRUE(found.sums == expected.sums) << "repeat " << repeat;
      EXPECT_TRUE(found.weights == expected.weights) << "repeat " << repeat;
    }
  }
}

TEST_F(NcclCollectiveTest, CancelEndsAnExchangeThatAPeerNeverJoins) {
  std::thread waiting([&] {
    attach_thread(ranks[0]->device);
    const Stream stream{.device = &ranks[0]->device};
    EXPECT_TRUE(collective->reduce_gradient(0, {.begin = 0, .size = kSize}, stream));
    EXPECT_TRUE(collective->finish(0, stream));
    synchronize(stream);
    EXPECT_TRUE(collective->cancelled());
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_FALSE(collective->cancelled());
  const auto began = std::chrono::steady_clock::now();
  collective->cancel();
  waiting.join();
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10));
  const Stream stream{.device = &ranks[1]->device};
  EXPECT_FALSE(collective->reduce_sums(1, stream));
}

}  // namespace
}  // namespace draftsmith
