// Many devices, and many starts of them.
#include <atomic>

#include <gtest/gtest.h>

#include "device/memory.h"
#include "train/tiny_run.h"

namespace draftsmith {
namespace {

void use_five_targets_and_three_drafters(TinyRun& run) {
  run.config.devices.targets = {"cpu:0", "cpu:1", "cpu:2", "cpu:3", "cpu:4"};
  run.config.devices.drafters = {"cpu:5", "cpu:6", "cpu:7"};
}

TEST(Devices, FiveTargetsAndThreeDraftersTrainAsOneTargetDoes) {
  TinyRun one, five;
  for (TinyRun* run : {&one, &five}) {
    run->evaluation_documents = 6;
    run->config.train.eval.every = 2;
    run->config.train.accumulate = 2;
    use_five_targets_and_three_drafters(*run);
  }
  one.config.devices.targets = {"cpu:0"};
  five.config.devices.queue.slots = 7;
  one.train();
  const TrainResult result = five.train();
  expect_same_steps(one.steps(), five.steps());
  expect_same_evaluations(one.evaluations(), five.evaluations());
  EXPECT_EQ(one.state(6), five.state(6));
  EXPECT_EQ(result.report.value().devices.size(), 8u);
  EXPECT_EQ(pinned_bytes(), 0);
}

TEST(Devices, EightThreadsStartAtOnceFiftyTimes) {
  std::map<std::string, std::vector<float>> first;
  for (int start = 0; start < 50; ++start) {
    TinyRun run;
    use_five_targets_and_three_drafters(run);
    run.documents = 8;
    run.config.train.steps = 1;
    run.config.train.context_tokens = 32;
    run.config.train.blocks = 4;
    run.train();
    if (start == 0) first = run.state(1);
    ASSERT_EQ(run.state(1), first) << "start " << start;
  }
}

class StopAt : public testing::TestWithParam<PipelinePoint> {};

// A signal may come at any moment of any thread.
TEST_P(StopAt, EndsAfterAStepWithACheckpointFromWhichTheSameBitsFollow) {
  TinyRun straight, parted;
  for (TinyRun* run : {&straight, &parted}) {
    run->evaluation_documents = 4;
    run->config.train.eval.every = 2;
    run->config.train.checkpoint.every = 3;
    run->config.train.steps = 8;
    run->config.devices.drafters = {"cpu:1", "cpu:2"};
  }
  straight.train();
  parted.hooks.at = [&](PipelinePoint point, std::int64_t index, Slot*) {
    if (point == GetParam() && index >= 3) parted.stop_signal = 2;
  };
  const TrainResult stopped = parted.train();
  EXPECT_EQ(stopped.checkpoint.step, stopped.step);
  parted.hooks = {};
  parted.stop_signal = 0;
  if (stopped.stopped()) parted.train(ExistingFolder::resume);
  EXPECT_EQ(parted.state(8), straight.state(8));
  expect_same_steps(parted.steps(), straight.steps());
  EXPECT_EQ(pinned_bytes(), 0);
}

INSTANTIATE_TEST_SUITE_P(AnyPoint, StopAt,
                         testing::Values(PipelinePoint::packed, PipelinePoint::target_pass,
                                         PipelinePoint::features_filled, PipelinePoint::drafter_pass,
                                         PipelinePoint::exchange, PipelinePoint::checkpoint));

}  // namespace
}  // namespace draftsmith
