#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <new>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "support/expect_error.h"
#include "train/tiny_run.h"

namespace draftsmith {
namespace {

namespace fs = std::filesystem;

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
  run.config.train.eval.every = 2;
  run.evaluation_documents = 6;
  run.config.train.checkpoint.every = 4;
  run.config.devices.targets = {"cpu:0", "cpu:1"};
  run.config.devices.drafters = {"cpu:2", "cpu:3", "cpu:4"};
  run.config.devices.queue.slots = 2;
  constexpr std::int64_t kFirstOfEvaluation = 6;  // after two steps of three micro-batches
  run.hooks = throwing(GetParam(), GetParam() == PipelinePoint::evaluated ? kFirstOfEvaluation : 4);
  within_limit([&] { expect_error([&] { run.train(); }, {"the device fell over"}); });
}

INSTANTIATE_TEST_SUITE_P(EveryThread, FailureAt,
                         testing::Values(PipelinePoint::packed, PipelinePoint::target_pass,
                                         PipelinePoint::features_filled, PipelinePoint::drafter_pass,
                                         PipelinePoint::exchange, PipelinePoint::evaluated,
                                         PipelinePoint::checkpoint));

TEST(Failure, ATargetThatFailsWhileNobodyReadsItsSlotsEndsTheRun) {
  TinyRun run;
  run.config.devices.queue.slots = 1;
  run.hooks.at = [](PipelinePoint point, std::int64_t index, Slot*) {
    if (point == PipelinePoint::drafter_pass) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (point == PipelinePoint::target_pass && index == 1) throw Error("the target is gone");
  };
  within_limit([&] { expect_error([&] { run.train(); }, {"the target is gone"}); });
}

// Feeder and target have filled every slot and wait for one, the checkpoint thread waits for the evaluation.
TEST(Failure, ADrafterThatFailsInFrontOfAFullQueueEndsTheRun) {
  TinyRun run;
  run.config.devices.queue.slots = 3;
  run.config.train.checkpoint.every = 2;
  run.config.train.eval.every = 2;
  run.evaluation_documents = 6;
  std::atomic<std::int64_t> filled{0};
  constexpr std::int64_t kFirstOfEvaluation = 2;  // after the micro-batches of two steps
  run.hooks.at = [&](PipelinePoint point, std::int64_t index, Slot*) {
    if (point == PipelinePoint::features_filled) ++filled;
    if (point != PipelinePoint::drafter_pass || index != kFirstOfEvaluation) return;
    while (filled < kFirstOfEvaluation + run.config.devices.queue.slots) std::this_thread::yield();
    throw Error("the drafter is gone");
  };
  within_limit([&] { expect_error([&] { run.train(); }, {"the drafter is gone"}); });
}

TEST(Failure, OfAnEvaluationStillWritesTheCheckpointThatWaitsForIt) {
  TinyRun straight, run;
  for (TinyRun* one : {&straight, &run}) {
    one->config.train.steps = 6;
    one->config.train.checkpoint.every = 4;
    one->config.train.eval.every = 4;
    one->evaluation_documents = 6;
  }
  straight.train();
  run.hooks = throwing(PipelinePoint::evaluated, 4);  // the first after four steps of one micro-batch
  within_limit([&] {
    expect_error([&] { run.train(); }, {"the device fell over. The newest checkpoint is ",
                                        "checkpoints/step-00000004", "go on with --resume"});
  });
  EXPECT_EQ(newest_checkpoint(run.folder()).step, 4);
  run.hooks = {};
  run.train(ExistingFolder::resume);
  EXPECT_EQ(straight.state(6), run.state(6));
  expect_same_evaluations(straight.evaluations(), run.evaluations());  // it is made up for
}

TEST(Failure, MemoryThatRunsOutSaysWhatToLowerAndWhereToGoOn) {
  TinyRun run;
  run.config.train.steps = 100;
  run.config.train.checkpoint.every = 4;
  run.config.train.eval.every = 4;
  run.evaluation_documents = 6;
  run.hooks.at = [](PipelinePoint point, std::int64_t, Slot*) {
    if (point == PipelinePoint::evaluated) throw std::bad_alloc();
  };
  within_limit([&] {
    expect_error([&] { run.train(); },
                 {"a limit on it (ulimit -v, a control group), has run out", "a lower train.context_tokens",
                  "checkpoints/step-00000004", "--resume"});
  });
}

// From here on no byte of the run's log finds room: its open file becomes that of a full disk.
void fill_disk_of_log(const RunFolder& folder) {
  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  for (const auto& descriptor : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (fs::read_symlink(descriptor.path(), gone) != fs::absolute(folder.metrics())) continue;
    ASSERT_GE(::dup2(full, std::stoi(descriptor.path().filename())), 0);
  }
  ::close(full);
}

PipelineHooks full_log_after(const TinyRun& run, std::int64_t step) {
  return {.at = [&run, step](PipelinePoint point, std::int64_t index, Slot*) {
    if (point == PipelinePoint::exchange && index == step) fill_disk_of_log(run.folder());
  }};
}

TEST(Failure, ALogThatCannotBeWrittenEndsTheRunWithACheckpointToGoOnFrom) {
  TinyRun straight, run;
  for (TinyRun* one : {&straight, &run}) one->config.train.steps = 200;
  straight.train();
  run.hooks = full_log_after(run, 3);
  within_limit([&] {
    expect_error([&] { run.train(); }, {"metrics.jsonl", "No space left on device", "The newest checkpoint",
                                        "checkpoints/step-00000", "--resume"});
  });
  EXPECT_LT(newest_checkpoint(run.folder()).step, 200);
  run.hooks = {};
  run.stop_signal = 0;
  run.train(ExistingFolder::resume);
  EXPECT_EQ(straight.state(200), run.state(200));
}

TEST(Failure, ADiskThatIsFullForLogAndCheckpointNamesBothInTheirOrder) {
  TinyRun run;
  run.config.train.steps = 100000;
  const PipelineHooks full_log = full_log_after(run, 3);
  run.hooks.at = [full_log](PipelinePoint point, std::int64_t index, Slot* slot) {
    full_log(point, index, slot);
    if (point == PipelinePoint::checkpoint) throw Error("the checkpoint cannot be written");
  };
  within_limit([&] {
    expect_error([&] { run.train(); },
                 {"metrics.jsonl", "No space left on device; then the checkpoint cannot be written",
                  "no checkpoint", "--overwrite"});
  });
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
  EXPECT_EQ(result.report->skipped_steps, 1);
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

TEST(NonFinite, ARunThatWasNeverFiniteSaysThatTheTargetMayNotBe) {
  TinyRun run;
  run.config.train.steps = 50;
  run.hooks = poison(0, 1000);
  expect_error([&] { run.train(); }, {"10 steps in a row", "No step was finite", "the target's hidden states",
                                      "rms_norm_eps", "train.optimizer.lr"});
  TinyRun later;
  later.hooks = poison(3, 1000);
  try {
    later.train();
    FAIL() << "it did not diverge";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("target"), std::string::npos) << error.what();
  }
}

// The run is over before ten steps in a row were skipped.
TEST(NonFinite, ARunThatEndsDivergedIsAnErrorAndStaysOneOnResume) {
  TinyRun run;
  run.hooks = poison(3, 1000);
  expect_error([&] { run.train(); }, {"diverged", "in the last 3 of 6 steps", "Nothing is exported",
                                      "step-00000006", "train.optimizer.lr"});
  EXPECT_EQ(run.steps().size(), 6u);
  expect_error([&] { run.train(ExistingFolder::resume); }, {"diverged", "in the last 3 of 6 steps"});
}

TEST(NonFinite, AHeldOutLossThatIsNotFiniteIsADivergence) {
  TinyRun run;
  run.evaluation_documents = 6;
  run.hooks = poison(6, 1000);  // after the micro-batches of six steps
  expect_error([&] { run.train(); }, {"diverged", "the held-out loss after the last step is not finite"});
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
