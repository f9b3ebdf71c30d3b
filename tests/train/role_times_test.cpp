#include "train/role_times.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/memory.h"
#include "train/tiny_run.h"

namespace draftsmith {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

DeviceTimes timed(int index, const DeviceRoles& roles, double target_s, double drafter_s) {
  return {.name = {DeviceKind::cpu, index}, .roles = roles, .target_s = target_s, .drafter_s = drafter_s};
}

// One device does both, a second one trains: each trains on every other micro-batch.
RoleTimes lopsided() {
  return {.devices = {timed(0, {.target = 0, .drafter = 0, .targets = 1, .drafters = 2}, 0.5, 1),
                      timed(1, {.drafter = 1, .targets = 1, .drafters = 2}, 0, 1)},
          .tokens = 300,
          .blocks = 20};
}

TEST(RoleTimes, TheBusiestDeviceSetsThePace) {
  const RoleTimes times = lopsided();
  EXPECT_EQ(times.busiest().name.index, 0);
  EXPECT_EQ(times.micro_batch_s(), 1.0);  // half a second of target, and of a drafter's second every other
  EXPECT_THAT(role_times_text(times), AllOf(HasSubstr("300 tokens/s, 20 blocks/s"),
                                            HasSubstr("cpu:1 would wait 50 % of the time, for cpu:0")));
}

TEST(RoleTimes, TheBestSplitIsNamedWithItsSpeed) {
  const RoleTimes times = lopsided();
  EXPECT_EQ(times.work().target_s, 0.5);
  EXPECT_EQ(times.work().drafter_s, 1.0);
  // Both roles on both: 1.5 s of work shared out evenly.
  EXPECT_THAT(role_times_text(times), AllOf(HasSubstr("both roles on each of 2 devices, 400 tokens/s"),
                                            HasSubstr("1.33 times as fast")));
  const RoleTimes alone{.devices = {timed(0, {.target = 0, .drafter = 0}, 1, 1)}, .tokens = 1, .blocks = 1};
  EXPECT_THAT(role_times_text(alone), Not(HasSubstr("split")));
}

TEST(RoleTimes, AnotherSplitThatIsNoFasterIsNotNamed) {
  const RoleTimes times{
      .devices = {timed(0, {.target = 0}, 1, 0), timed(1, {.drafter = 0}, 0, 1)}, .tokens = 1, .blocks = 1};
  EXPECT_THAT(role_times_text(times), HasSubstr("no other split of these devices would be faster"));
}

// A drafter whose step takes many times the target's pass, each long enough that the threads' meetings count for
// little.
void make_the_drafter_slow(TinyRun& run) {
  run.config.drafter.layers = 4;
  run.config.train.context_tokens = 256;
  run.config.train.blocks = 256;
  run.config.train.anchors_per_document = 32;
  run.config.train.steps = 8;
}

TEST(MeasuredPlan, ForetellsSpeedAndBottleneckOfTheRun) {
  TinyRun run;
  make_the_drafter_slow(run);
  run.config.devices.drafters = {"cpu:1", "cpu:2"};
  const RunPlan plan = run.plan({.speed = true});
  ASSERT_TRUE(plan.measured);
  const TrainReport report = run.train().report.value();
  EXPECT_TRUE(plan.measured->busiest().roles.drafter);
  EXPECT_GT(report.role_work().drafter_s, report.role_work().target_s);
  const double found = static_cast<double>(report.blocks) / report.seconds;
  const double foretold = static_cast<double>(plan.measured->blocks) / plan.measured->micro_batch_s();
  constexpr double kFactor = 10;  // other work of the machine may slow down either
  EXPECT_LT(foretold, kFactor * found);
  EXPECT_GT(foretold, found / kFactor);
}

TEST(MeasuredPlan, WritesNothingAndGivesAllMemoryBack) {
  TinyRun run;
  run.config.train.accumulate = 2;
  run.config.train.optimizer.shard = true;
  run.config.devices.targets = {"cpu:0", "cpu:1"};
  run.config.devices.drafters = {"cpu:0", "cpu:1"};
  const std::string text = plan_text(run.plan({.speed = true}));
  EXPECT_THAT(text, AllOf(HasSubstr("measured on a micro-batch"),
                          HasSubstr("both roles on each of 2 devices"), Not(HasSubstr("not measured"))));
  EXPECT_FALSE(std::filesystem::exists(run.config.output));
  EXPECT_EQ(pinned_bytes(), 0);
}

TEST(MeasuredPlan, WithoutItThePlanSaysThatItCounts) {
  TinyRun run;
  EXPECT_THAT(plan_text(run.plan()),
              AllOf(HasSubstr("speed is not measured (--measure does)"), HasSubstr("counted")));
}

TEST(MeasuredPlan, WhereTheMemoryIsNotThereNothingIsTimed) {
  TinyRun run;
  run.config.devices.memory_gib = 1e-6;
  const RunPlan plan = run.plan({.speed = true});
  EXPECT_FALSE(plan.measured);
  EXPECT_NE(plan.lack, "");
}

}  // namespace
}  // namespace draftsmith
