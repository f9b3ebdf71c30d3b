// An exchange that fails beside the calls, as NCCL reports it: ranks wait on for what never comes, and only
// Collective::check() says why.
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "device/memory.h"
#include "support/expect_error.h"
#include "train/tiny_run.h"

namespace draftsmith {
namespace {

// Where the two ranks are when it fails.
enum class Moment {
  asking,       // in the calls of backward, before finish()
  one_waits,    // rank 0 in finish(), rank 1 before it
  both_queued,  // past finish(), waiting for their devices: what those find then is anything
};

constexpr std::int64_t kFirstExchange =
    0;  // the one of nothing, before the first step; that of step s is number s

// Hands on to another exchange until the one with this number, which fails.
class FailingCollective : public Collective {
 public:
  FailingCollective(std::unique_ptr<Collective> inner, Moment moment, std::int64_t number)
      : inner_(std::move(inner)), moment_(moment), number_(number) {}

  void set_buffers(std::int64_t rank, const ExchangeBuffers& buffers) override {
    inner_->set_buffers(rank, buffers);
  }
  void connect() override { inner_->connect(); }

  bool reduce_gradient(std::int64_t rank, const ExchangeRange& range, const Stream& stream) override {
    if (moment_ == Moment::asking && finished_[rank] == number_) hang();
    return inner_->reduce_gradient(rank, range, stream);
  }
  bool reduce_sums(std::int64_t rank, const Stream& stream) override {
    return inner_->reduce_sums(rank, stream);
  }
  bool gather_weights(std::int64_t rank, const std::vector<ExchangeRange>& parts,
                      const Stream& stream) override {
    return inner_->gather_weights(rank, parts, stream);
  }
  bool finish(std::int64_t rank, const Stream& stream) override {
    const bool fails = finished_[rank]++ == number_;
    if (fails && moment_ == Moment::both_queued) {
      hang();
      return true;
    }
    if (fails && moment_ == Moment::one_waits && rank == 1) hang();
    return inner_->finish(rank, stream);
  }
  double take_exposed_s(std::int64_t rank) override { return inner_->take_exposed_s(rank); }

  void cancel() override { inner_->cancel(); }
  bool cancelled() const override { return inner_->cancelled(); }
  void check() override {
    if (failed_) throw Error("the exchange of cpu:1 with the other drafters failed");
  }

 private:
  void hang() {
    failed_ = true;
    while (!cancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  const std::unique_ptr<Collective> inner_;
  const Moment moment_;
  const std::int64_t number_;
  std::array<std::int64_t, 2> finished_{};  // by rank, each its thread's
  std::atomic<bool> failed_{false};
};

PipelineHooks failing(Moment moment, std::int64_t number) {
  PipelineHooks hooks;
  hooks.collective = [=](std::unique_ptr<Collective> inner) {
    return std::make_unique<FailingCollective>(std::move(inner), moment, number);
  };
  return hooks;
}

class ExchangeFailure : public testing::TestWithParam<Moment> {
 protected:
  ExchangeFailure() {
    run_.config.devices.drafters = {"cpu:1", "cpu:2"};
    run_.config.train.checkpoint.every = 2;
  }

  void fail_at(std::int64_t exchange) {
    constexpr auto kLimit = std::chrono::seconds(10);
    run_.hooks = failing(GetParam(), exchange);
    const auto began = std::chrono::steady_clock::now();
    expect_error([&] { run_.train(); }, {"the exchange of cpu:1 with the other drafters failed"});
    EXPECT_LT(std::chrono::steady_clock::now() - began, kLimit);
    EXPECT_EQ(pinned_bytes(), 0);
    run_.hooks = {};
  }

  TinyRun run_;
};

TEST_P(ExchangeFailure, EndsTheRunWithACheckpointFromWhichTheSameBitsFollow) {
  TinyRun straight;
  straight.config.devices = run_.config.devices;
  straight.config.train = run_.config.train;
  straight.train();
  fail_at(5);
  EXPECT_EQ(run_.steps().size(), 4u);  // no step is told whose sums are not sound
  EXPECT_LE(newest_checkpoint(run_.folder()).step, 4);
  EXPECT_EQ(run_.train(ExistingFolder::resume).step, 6);
  EXPECT_EQ(run_.state(6), straight.state(6));
  expect_same_steps(run_.steps(), straight.steps());
}

TEST_P(ExchangeFailure, BeforeTheFirstStepEndsTheRunToo) {
  fail_at(kFirstExchange);
  EXPECT_TRUE(run_.steps().empty());
  EXPECT_EQ(run_.train(ExistingFolder::overwrite).step, 6);
}

TEST_P(ExchangeFailure, WhileSpeedIsMeasuredEndsThePlan) {
  run_.hooks = failing(GetParam(), kFirstExchange);
  expect_error([&] { run_.plan({.speed = true}); }, {"the exchange of cpu:1 with the other drafters failed"});
  EXPECT_EQ(pinned_bytes(), 0);
  run_.hooks = {};
  EXPECT_EQ(run_.train().step, 6);
}

INSTANTIATE_TEST_SUITE_P(AtAnyMoment, ExchangeFailure,
                         testing::Values(Moment::asking, Moment::one_waits, Moment::both_queued));

}  // namespace
}  // namespace draftsmith
