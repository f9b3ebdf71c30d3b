#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "train/tiny_run.h"

namespace draftsmith {
namespace {

// Every test of this file must end long before this.
constexpr double kLimit_s = 10;

template <typename Call>
void within_limit(const Call& call) {
  const auto began = std::chrono::steady_clock::now();
  call();
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count(), kLimit_s);
}

PipelineHooks throwing(PipelinePoint where, std::int64_t index) {
  return {.at = [=](PipelinePoint point, std::int64_t at, Slot*) {
    if (point == where && at == index) throw Error("the device fell over");
  }};
}

class FailureAt : public testing::TestWithParam<PipelinePoint> {};

TEST_P(FailureAt, StopsEverythingAndIsTheMessage) {
  TinyRun run;
  run.config.train.steps = 1000;
  run.config.train.checkpoint.every = 4;
  run.config.devices.targets = {"cpu:0", "cpu:1"};
  run.config.devices.drafters = {"cpu:2", "cpu:3", "cpu:4"};
  run.config.devices.queue.slots = 2;
  run.hooks = throwing(GetParam(), 4);
  within_limit([&] { expect_error([&] { run.train(); }, {"the device fell over"}); });
}

INSTANTIATE_TEST_SUITE_P(EveryThread, FailureAt,
                         testing::Values(PipelinePoint::packed, PipelinePoint::target_pass,
                                         PipelinePoint::features_filled, PipelinePoint::drafter_pass,
                                         PipelinePoint::exchange, PipelinePoint::checkpoint));

TEST(Failure, ATargetThatFailsWhileNobodyReadsItsSlotsEndsTheRun) {
  TinyRun run;
  run.config.devices.queue.slots = 1;
  run.hooks.at = [](PipelinePoint point, std::int64_t index, Slot*) {
    if (point == PipelinePoint::drafter_pass) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (point == PipelinePoint::target_pass && index == 1) throw Error("the target is gone");
  };
  within_limit([&] { expect_error([&] { run.train(); }, {"the target is gone"}); });
}

TEST(Failure, AfterOneTheProcessCanTrainAgain) {
  TinyRun run;
  run.config.train.checkpoint.every = 2;
  run.hooks = throwing(PipelinePoint::drafter_pass, 4);
  expect_error([&] { run.train(); }, {"fell over"});
  run.hooks = {};
  EXPECT_EQ(run.train(ExistingFolder::resume).step, 6);
}

// Writes NaN into the features of some micro-batches, as a broken target would.
PipelineHooks poison(std::int64_t first, std::int64_t last) {
  return {.at = [=](PipelinePoint point, std::int64_t index, Slot* slot) {
    if (point != PipelinePoint::features_filled || index < first || index > last) return;
    auto* const values = reinterpret_cast<float*>(slot->features.data);
    std::fill(values, values + slot->features.size / 4, std::numeric_limits<float>::quiet_NaN());
  }};
}

TEST(NonFinite, AStepIsSkippedCountedAndShown) {
  TinyRun run, clean;
  run.hooks = poison(2, 2);  // step 3
  run.config.train.checkpoint = {.every = 1, .keep = 10};
  const TrainResult result = run.train();
  EXPECT_EQ(result.report.skipped_steps, 1);
  const auto steps = run.steps();
  ASSERT_EQ(steps.size(), 6u);
  EXPECT_TRUE(steps[2].skipped);
  EXPECT_EQ(steps[5].skipped_steps, 1);
  EXPECT_EQ(run.state(2), run.state(3));  // not a bit has changed
  EXPECT_NE(run.state(3), run.state(4));
  EXPECT_TRUE(std::isfinite(steps[3].loss));
}

TEST(NonFinite, TenInARowStopTheRunAndNameTheLastGoodCheckpoint) {
  TinyRun run;
  run.config.train.steps = 50;
  run.config.train.checkpoint.every = 3;
  run.hooks = poison(4, 1000);
  // The state stays good while steps are skipped, so a checkpoint is good too.
  within_limit([&] {
    expect_error([&] { run.train(); },
                 {"10 steps in a row", "step 14", "last good checkpoint", "checkpoints/step-000000"});
  });
}

TEST(Stop, FinishesTheStepOnEveryDrafterAndWritesACheckpoint) {
  TinyRun run;
  run.config.train.steps = 100000;
  run.config.devices.drafters = {"cpu:1", "cpu:2"};
  std::thread asks([&run] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    run.stop_signal = 2;
  });
  TrainResult result;
  within_limit([&] { result = run.train(); });
  asks.join();
  EXPECT_TRUE(result.stopped());
  EXPECT_EQ(result.checkpoint.step, result.step);
  EXPECT_EQ(run.steps().back().step, result.step);
}

TEST(Stop, ARequestBeforeTheFirstStepEndsAfterIt) {
  TinyRun run;
  run.stop_signal = 15;
  EXPECT_EQ(run.train().step, 1);
}

}  // namespace
}  // namespace draftsmith
