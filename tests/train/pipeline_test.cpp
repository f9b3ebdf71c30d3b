#include "train/pipeline.h"

#include <chrono>
#include <cmath>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include <gtest/gtest.h>

#include "base/log.h"
#include "base/random.h"
#include "support/expect_error.h"
#include "train/tiny_run.h"

namespace draftsmith {
namespace {

// Sleeps of up to `most_us`, by chance, wherever threads meet.
PipelineHooks delays(std::uint64_t seed, std::uint64_t most_us) {
  return {.at = [seed, most_us](PipelinePoint point, std::int64_t index, Slot*) {
    const Random random(seed, RandomStream::noise, static_cast<std::uint32_t>(point));
    std::this_thread::sleep_for(
        std::chrono::microseconds(random.below(static_cast<std::uint64_t>(index), most_us)));
  }};
}

void use_devices(TinyRun& run, std::vector<std::string> targets, std::vector<std::string> drafters) {
  run.config.devices.targets = std::move(targets);
  run.config.devices.drafters = std::move(drafters);
}

TEST(Pipeline, LossFallsOnWhatCanBeLearned) {
  TinyRun run;
  run.config.train.steps = 60;
  run.train();
  const auto steps = run.steps();
  ASSERT_EQ(steps.size(), 60u);
  EXPECT_LT(steps.back().loss, 0.7 * steps.front().loss);
}

// The main thread sets every device up, and later warns of exports and checkpoints.
TEST(Pipeline, LinesOfTheMainThreadNameNoDeviceAfterARun) {
  TinyRun run;
  run.config.train.steps = 1;
  run.train();
  std::string line;
  set_log_sink([&](std::string_view text) { line = text; });
  log_warning("of the run");
  set_log_sink({});
  EXPECT_EQ(line, "draftsmith: warning: of the run");
}

TEST(Pipeline, NothingIsSetUpAndNoHeapIsTakenAfterTheSeal) {
  TinyRun run;
  run.evaluation_documents = 8;
  run.config.train.eval.every = 2;
  run.config.train.checkpoint.every = 2;
  const TrainResult result = run.train();
  for (const std::int64_t count : result.report->seal.after) EXPECT_EQ(count, 0);
  EXPECT_EQ(result.report->heap.ours, 0);
  EXPECT_GT(result.report->seal.before[static_cast<int>(SetUp::arena)], 0);
  EXPECT_FALSE(sealed());
}

// What the only drafter does, in order: the micro-batches that it takes, and the steps that it exchanges.
std::string order_of(TinyRun& run) {
  std::string order;
  std::mutex mutex;
  run.hooks.at = [&](PipelinePoint point, std::int64_t index, Slot*) {
    const std::lock_guard lock(mutex);
    if (point == PipelinePoint::drafter_pass) order += std::to_string(index) + " ";
    if (point == PipelinePoint::exchange) order += "x" + std::to_string(index) + " ";
  };
  run.train();
  return order;
}

TEST(Pipeline, ADrafterTakesTheNextStepsFirstMicroBatchBeforeItsExchange) {
  TinyRun run;
  run.config.train.steps = 3;
  run.config.train.accumulate = 2;
  EXPECT_EQ(order_of(run), "0 1 2 x1 3 4 x2 5 x3 ");
}

TEST(Pipeline, ADrafterFinishesAStepBeforeItsEvaluation) {
  TinyRun run;
  run.config.train.steps = 3;
  run.config.train.eval.every = 2;
  run.evaluation_documents = 2;  // two micro-batches
  EXPECT_EQ(order_of(run), "0 1 x1 x2 2 3 4 x3 5 6 ");
}

struct Layout {
  std::string name;
  std::vector<std::string> targets, drafters;
  std::int64_t slots;
};

class PipelineLayout : public testing::TestWithParam<Layout> {};

TEST_P(PipelineLayout, TargetsSlotsAndTimingChangeNoBit) {
  TinyRun plain;
  plain.evaluation_documents = 6;
  plain.config.train.eval.every = 2;
  const auto drafters = static_cast<std::int64_t>(GetParam().drafters.size());
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < drafters; ++i) names.push_back("cpu:" + std::to_string(10 + i));
  use_devices(plain, {"cpu:0"}, names);
  plain.train();

  TinyRun other;
  other.evaluation_documents = plain.evaluation_documents;
  other.config.train.eval.every = 2;
  use_devices(other, GetParam().targets, GetParam().drafters);
  other.config.devices.queue.slots = GetParam().slots;
  other.hooks = delays(static_cast<std::uint64_t>(GetParam().slots), 2000);
  other.train();

  expect_same_steps(plain.steps(), other.steps());
  expect_same_evaluations(plain.evaluations(), other.evaluations());
  EXPECT_EQ(plain.state(6), other.state(6));
}

INSTANTIATE_TEST_SUITE_P(
    All, PipelineLayout,
    testing::Values(Layout{"OneAndOne", {"cpu:0"}, {"cpu:1"}, 1},
                    Layout{"TwoTargets", {"cpu:0", "cpu:1"}, {"cpu:2"}, 4},
                    Layout{"ThreeDrafters", {"cpu:0"}, {"cpu:1", "cpu:2", "cpu:3"}, 2},
                    Layout{"BothRolesOnOneDevice", {"cpu:0"}, {"cpu:0"}, 2},
                    Layout{"BothRolesOneSlot", {"cpu:0"}, {"cpu:0"}, 1},
                    Layout{"CrossedRoles", {"cpu:0", "cpu:1"}, {"cpu:1", "cpu:0", "cpu:2"}, 1}),
    [](const auto& info) { return info.param.name; });

TEST(Pipeline, FeaturesThatWaitWithTheirDraftersGiveTheSameBits) {
  TinyRun host, peer;
  for (TinyRun* run : {&host, &peer}) {
    run->evaluation_documents = 6;
    run->config.train.eval.every = 2;
    use_devices(*run, {"cpu:0", "cpu:1"}, {"cpu:2", "cpu:3"});
    run->config.devices.queue.slots = 4;
  }
  peer.config.devices.queue.path = QueuePath::peer;
  host.train();
  const TrainReport report = peer.train().report.value();
  expect_same_steps(host.steps(), peer.steps());
  expect_same_evaluations(host.evaluations(), peer.evaluations());
  EXPECT_EQ(host.state(6), peer.state(6));
  EXPECT_GT(report.devices.back().bytes_by_purpose.at("slots"), report.slot_bytes);
}

TEST(Pipeline, AShardedOptimizerGivesTheSameBitsInLessMemory) {
  for (const DType compute : {DType::float32, DType::bf16}) {
    TinyRun whole, sharded;
    for (TinyRun* run : {&whole, &sharded}) {
      run->evaluation_documents = 6;
      run->config.train.eval.every = 2;
      run->config.train.checkpoint.every = 3;
      run->config.train.compute = compute;
      use_devices(*run, {"cpu:0"}, {"cpu:1", "cpu:2", "cpu:3"});
    }
    sharded.config.train.optimizer.shard = true;
    const TrainReport all = whole.train().report.value();
    const TrainReport part = sharded.train().report.value();
    EXPECT_EQ(whole.state(3), sharded.state(3));
    EXPECT_EQ(whole.state(6), sharded.state(6));
    expect_same_steps(whole.steps(), sharded.steps());
    expect_same_evaluations(whole.evaluations(), sharded.evaluations());
    const auto optimizer_bytes = [](const TrainReport& report) {
      return report.devices.back().bytes_by_purpose.at("optimizer");
    };
    EXPECT_LT(2.5 * static_cast<double>(optimizer_bytes(part)), static_cast<double>(optimizer_bytes(all)));
  }
}

TEST(Pipeline, SlotsThatDoNotDivideAmongTheDraftersCannotWaitWithThem) {
  TinyRun run;
  use_devices(run, {"cpu:0"}, {"cpu:1", "cpu:2"});
  run.config.devices.queue = {.slots = 3, .path = QueuePath::peer};
  expect_error([&] { run.train(); }, {"devices.queue.path", "3 slots do not divide among 2 drafters"});
}

class DraftersOfOneBatch : public testing::TestWithParam<std::int64_t> {};

// With the same weights one drafter and several make the same losses of the same six micro-batches, which are added in
// another order; so are the rows of every weight gradient.
TEST_P(DraftersOfOneBatch, AgreeWithOneWithinTheRoundingsOfTheOrder) {
  constexpr std::int64_t kMicroBatches = 6;
  TinyRun one, several;
  for (TinyRun* run : {&one, &several}) {
    run->config.train.steps = 1;
    run->config.train.optimizer.clip = 0;
  }
  one.config.train.accumulate = kMicroBatches;
  several.config.train.accumulate = kMicroBatches / GetParam();
  std::vector<std::string> names;
  for (std::int64_t i = 1; i <= GetParam(); ++i) names.push_back("cpu:" + std::to_string(i));
  use_devices(several, {"cpu:0"}, names);
  one.train();
  several.train();
  expect_same_first_step_in_another_order(one, several, kMicroBatches);
}

INSTANTIATE_TEST_SUITE_P(TwoAndThree, DraftersOfOneBatch, testing::Values(2, 3));

TEST(Pipeline, SeveralThreadsOfADeviceGiveTheSameBitsEveryTime) {
  if (!heap_counts().watched) GTEST_SKIP() << "the sanitizers cannot see into OpenMP's threads";
  TinyRun once, again;
  for (TinyRun* run : {&once, &again}) {
    run->config.devices.threads = 3;
    run->config.train.context_tokens = 192;  // enough work to be worth splitting
    run->config.train.blocks = 40;
    run->config.train.steps = 3;
  }
  again.hooks = delays(1, 1000);
  once.train();
  const TrainResult result = again.train();
  expect_same_steps(once.steps(), again.steps());
  EXPECT_EQ(once.state(3), again.state(3));
  EXPECT_EQ(result.report->heap.ours, 0);
}

TEST(Pipeline, EpochsEndWithEmptyMicroBatchesThatStillJoin) {
  TinyRun run;
  run.documents = 7;
  run.config.train.steps.reset();
  run.config.train.epochs = 2;
  use_devices(run, {"cpu:0"}, {"cpu:1", "cpu:2", "cpu:3"});
  const RunShapes shapes{.budget = {.context_tokens = 48, .blocks = 10, .block_size = 4}};
  const std::int64_t micro_batches =
      count_micro_batches(made_up_corpus(7, 1), packer_settings(run.config, shapes.budget));
  ASSERT_NE(micro_batches % 3, 0) << "the last step of this case has room for an empty micro-batch";
  const TrainResult result = run.train();
  EXPECT_EQ(result.step, (micro_batches + 2) / 3);
  std::int64_t tokens = 0, expected = 0;
  for (const StepRecord& step : run.steps()) tokens += step.tokens;
  expected = 2 * made_up_corpus(7, 1).counts().tokens;
  EXPECT_EQ(tokens, expected);  // every document once an epoch
}

TEST(Pipeline, Bf16TrainsToo) {
  TinyRun run;
  run.config.train.compute = DType::bf16;
  run.config.train.steps = 40;
  run.evaluation_documents = 6;
  const TrainResult result = run.train();
  EXPECT_LT(run.steps().back().loss, 0.9 * run.steps().front().loss);
  EXPECT_GE(result.evaluation->acceptance, 1.0);
}

// The device that has only the target measures a product of it.
TEST(Pipeline, ATargetOfExpertsMayHaveADeviceOfItsOwn) {
  TinyRun run;
  run.config.target = DRAFTSMITH_SOURCE_DIR "/tests/golden/target_qwen3_moe";
  run.train();
  EXPECT_EQ(run.steps().size(), 6u);
}

TEST(Pipeline, OverfitsOneBatch) {
  TinyRun run;
  run.documents = 2;  // they fit one micro-batch
  run.config.train.steps = 150;
  run.config.train.optimizer.schedule = ScheduleType::constant;
  run.train();
  EXPECT_LT(run.steps().back().loss, 0.05);
  EXPECT_GT(run.steps().back().accuracy, 0.99);
}

}  // namespace
}  // namespace draftsmith
