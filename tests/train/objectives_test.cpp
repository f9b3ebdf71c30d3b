// Objectives of a whole run: distillation, feature noise, recomputation, weights to begin with.
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "train/export_run.h"
#include "train/tiny_run.h"

namespace draftsmith {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

double last_loss(const TinyRun& run) { return run.steps().back().loss; }

TEST(Objectives, RecomputingLayersChangesNoBitOfARun) {
  TinyRun plain, recomputed;
  for (TinyRun* run : {&plain, &recomputed}) run->config.train.steps = 6;
  recomputed.config.train.recompute = Recompute::layer;
  plain.train();
  recomputed.train();
  expect_same_steps(plain.steps(), recomputed.steps());
  EXPECT_EQ(plain.state(6), recomputed.state(6));
}

TEST(Objectives, ADistilledRunLearnsAndIsTheSameWithSeveralDevices) {
  TinyRun one, several;
  for (TinyRun* run : {&one, &several}) {
    run->config.train.steps = 12;
    run->config.train.loss.distill = {.weight = 0.5, .temperature = 2};
  }
  several.config.devices.targets = {"cpu:0", "cpu:1"};
  several.config.devices.drafters = {"cpu:2"};
  one.train();
  several.train();
  EXPECT_LT(last_loss(one), one.steps().front().loss);
  expect_same_steps(one.steps(), several.steps());
}

// With all weight on the teacher's distribution the hard labels take no part: the loss is a divergence, not below 0.
TEST(Objectives, TheTeachersShareIsWhatTheLossIsMadeOf) {
  TinyRun hard, soft, half;
  for (TinyRun* run : {&hard, &soft, &half}) run->config.train.steps = 1;
  soft.config.train.loss.distill = {.weight = 1, .temperature = 1};
  half.config.train.loss.distill = {.weight = 0.5, .temperature = 1};
  for (TinyRun* run : {&hard, &soft, &half}) run->train();
  EXPECT_GE(last_loss(soft), 0);
  EXPECT_NEAR(last_loss(half), (last_loss(hard) + last_loss(soft)) / 2, 1e-5 * last_loss(hard));
}

// Noise is the drafter's own: the slots that carry features and the teacher's hidden states hold what they held without.
TEST(Objectives, NoiseReachesNeitherTheTargetNorItsLogits) {
  const auto slots_of = [](NoiseKind kind) {
    TinyRun run;
    run.config.train.steps = 4;
    run.config.train.loss.distill = {.weight = 0.5, .temperature = 1};
    run.config.train.noise = {.type = kind, .scale = 0.5};
    std::vector<std::vector<std::byte>> seen;
    std::mutex mutex;
    run.hooks.at = [&](PipelinePoint point, std::int64_t, Slot* slot) {
      if (point != PipelinePoint::drafter_pass) return;
      const std::lock_guard lock(mutex);
      seen.emplace_back(slot->features.begin(), slot->features.end());
      seen.emplace_back(slot->final_hidden.begin(), slot->final_hidden.end());
    };
    run.train();
    return std::pair(seen, last_loss(run));
  };
  const auto [without, loss_without] = slots_of(NoiseKind::none);
  const auto [with, loss_with] = slots_of(NoiseKind::gaussian);
  EXPECT_EQ(with, without);
  EXPECT_NE(loss_with, loss_without) << "the drafter sees the noise";
}

TEST(Objectives, NoiseIsTheSameForAnyNumberOfTargetsAndAfterResuming) {
  TinyRun straight, several, resumed;
  for (TinyRun* run : {&straight, &several, &resumed}) {
    run->config.train.steps = 6;
    run->config.train.checkpoint.every = 3;
    run->config.train.noise = {.type = NoiseKind::uniform, .scale = 0.2, .schedule = NoiseSchedule::linear};
  }
  several.config.devices.targets = {"cpu:0", "cpu:1"};
  several.config.devices.drafters = {"cpu:2"};
  straight.train();
  several.train();
  expect_same_steps(straight.steps(), several.steps());

  resumed.hooks.at = [&](PipelinePoint point, std::int64_t number, Slot*) {
    if (point == PipelinePoint::exchange && number == 3) resumed.stop_signal = 2;
  };
  EXPECT_TRUE(resumed.train().stopped());
  resumed.stop_signal = 0;
  resumed.hooks = {};
  resumed.train(ExistingFolder::resume);
  EXPECT_EQ(resumed.state(6), straight.state(6));
}

TEST(Objectives, ARunBeginsWithTheWeightsOfAFolder) {
  TinyRun first, second, other;
  first.config.train.steps = 30;
  first.train();
  export_run(first.folder(), "last");
  second.config.train.steps = 1;
  second.config.drafter.init = first.folder().exported();
  second.train();
  EXPECT_LT(last_loss(second), 0.8 * first.steps().front().loss) << "it goes on where the first one ended";

  other.config.train.steps = 1;
  other.config.drafter.init = first.folder().exported();
  other.config.drafter.intermediate = 48;
  EXPECT_THAT([&] { other.train(); },
              ThrowsMessage<Error>(
                  testing::AllOf(HasSubstr("drafter.init"), HasSubstr("drafter.intermediate: 48 here"))));
}

}  // namespace
}  // namespace draftsmith
