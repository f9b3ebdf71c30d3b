// The pipeline over two GPUs: what holds on CPU devices holds there. Skipped where there are no two.
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "device/memory.h"
#include "support/expect_error.h"
#include "train/tiny_run.h"

namespace draftsmith {
namespace {

class TwoGpus : public testing::Test {
 protected:
  void SetUp() override {
    if (list_gpus().gpus.size() < 2) GTEST_SKIP() << "there are no two GPUs";
  }

  static void use_both(TinyRun& run) {
    run.config.devices.targets = {"cuda:0"};
    run.config.devices.drafters = {"cuda:0", "cuda:1"};
    run.config.train.checkpoint.every = 10;
  }
};

TEST_F(TwoGpus, TwoDraftersAgreeWithOneWithinTheRoundingsOfTheOrder) {
  TinyRun one, two;
  for (TinyRun* run : {&one, &two}) {
    use_both(*run);
    run->config.train.steps = 1;
    run->config.train.optimizer.clip = 0;
    run->config.train.accumulate = 3;
  }
  one.config.devices.drafters = {"cuda:1"};
  one.config.train.accumulate = 6;
  one.train();
  two.train();
  expect_same_first_step_in_another_order(one, two, 6);
}

TEST_F(TwoGpus, TheSameRunGivesTheSameBitsTwentyTimes) {
  std::map<std::string, std::vector<float>> first;
  for (int repeat = 0; repeat < 20; ++repeat) {
    TinyRun run;
    use_both(run);
    run.config.train.steps = 10;
    run.config.train.compute = DType::bf16;
    const TrainResult result = run.train();
    if (repeat == 0) first = run.state(10);
    ASSERT_EQ(run.state(10), first) << "repeat " << repeat;
    EXPECT_TRUE(result.report.value().memory.steady());
    for (const std::int64_t count : result.report->seal.after) EXPECT_EQ(count, 0);
  }
  EXPECT_EQ(pinned_bytes(), 0);
}

TEST_F(TwoGpus, WhereTheRolesLieChangesNoBit) {
  TinyRun apart, together;
  apart.config.devices.targets = {"cuda:0"};
  apart.config.devices.drafters = {"cuda:1"};
  together.config.devices.targets = {"cuda:0"};
  together.config.devices.drafters = {"cuda:0"};
  apart.train();
  together.train();
  EXPECT_EQ(apart.state(6), together.state(6));
  expect_same_steps(apart.steps(), together.steps());
}

TEST_F(TwoGpus, ThroughTheHostOrStraightFeaturesAreTheSame) {
  TinyRun host, peer;
  for (TinyRun* run : {&host, &peer}) {
    use_both(*run);
    run->config.devices.queue.slots = 4;
  }
  host.config.devices.queue.path = QueuePath::host;
  peer.config.devices.queue.path = QueuePath::peer;
  host.train();
  peer.train();
  EXPECT_EQ(host.state(6), peer.state(6));
  expect_same_steps(host.steps(), peer.steps());
}

TEST_F(TwoGpus, AShardedOptimizerGivesTheSameBits) {
  TinyRun whole, sharded;
  use_both(whole);
  use_both(sharded);
  sharded.config.train.optimizer.shard = true;
  whole.train();
  sharded.train();
  EXPECT_EQ(whole.state(6), sharded.state(6));
  expect_same_steps(whole.steps(), sharded.steps());
}

TEST_F(TwoGpus, AStoppedAndResumedRunEndsWithTheBitsOfOneThatWasNot) {
  TinyRun straight, parted;
  for (TinyRun* run : {&straight, &parted}) {
    use_both(*run);
    run->evaluation_documents = 6;
    run->config.train.eval.every = 5;
    run->config.train.steps = 30;
  }
  straight.train();
  parted.hooks.at = [&](PipelinePoint point, std::int64_t step, Slot*) {
    if (point == PipelinePoint::exchange && step == 17) parted.stop_signal = 15;
  };
  EXPECT_EQ(parted.train().step, 17);
  parted.hooks = {};
  parted.stop_signal = 0;
  parted.train(ExistingFolder::resume);
  EXPECT_EQ(parted.state(30), straight.state(30));
  expect_same_steps(parted.steps(), straight.steps());
}

TEST_F(TwoGpus, ADrafterThatThrowsEndsTheRun) {
  TinyRun run;
  use_both(run);
  run.config.train.steps = 1000;
  run.hooks.at = [](PipelinePoint point, std::int64_t index, Slot*) {
    if (point == PipelinePoint::drafter_pass && index == 21) throw Error("the drafter fell over");
  };
  const auto began = std::chrono::steady_clock::now();
  expect_error([&] { run.train(); }, {"the drafter fell over"});
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
  EXPECT_EQ(pinned_bytes(), 0);
}

// The other rank's exchange hangs on its GPU until the watchdog has it aborted.
TEST_F(TwoGpus, AStuckPeerEndsTheRun) {
  TinyRun run;
  use_both(run);
  run.config.train.steps = 1000;
  run.config.devices.watchdog_s = 2;
  run.hooks.at = [](PipelinePoint point, std::int64_t index, Slot*) {
    if (point == PipelinePoint::drafter_pass && index == 21) {
      std::this_thread::sleep_for(std::chrono::seconds(4));
    }
  };
  const auto began = std::chrono::steady_clock::now();
  expect_error([&] { run.train(); }, {"is at work and does not end", "waits for"});
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
  EXPECT_EQ(pinned_bytes(), 0);
}

}  // namespace
}  // namespace draftsmith
