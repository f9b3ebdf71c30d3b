#include "train/watchdog.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "base/heap.h"
#include "device/memory.h"
#include "support/expect_error.h"
#include "train/crew.h"
#include "train/tiny_run.h"

namespace draftsmith {
namespace {

void sleep_s(double seconds) {
  std::this_thread::sleep_for(std::chrono::microseconds(static_cast<std::int64_t>(1e6 * seconds)));
}

TEST(Watchdog, TheLimitIsWhatIsConfiguredElseAMinuteOrTenWarmUps) {
  EXPECT_EQ(watchdog_limit_s(5, 100), 5);
  EXPECT_EQ(watchdog_limit_s({}, 1), 60);
  EXPECT_EQ(watchdog_limit_s({}, 7), 70);
}

TEST(Watchdog, SaysWhoWaitsForWhomWhenNobodyGoesOn) {
  ThreadTimes feeder{.name = "feeder"}, target{.name = "cpu:0"}, drafter{.name = "cpu:1"};
  feeder.activity.wait(WaitFor::free_slot);
  drafter.activity.wait(WaitFor::exchange);
  Watchdog watchdog(0.02);
  const auto check = [&] { watchdog.check({&feeder, &target, &drafter}); };
  check();
  check();
  sleep_s(0.03);
  expect_error(check, {"feeder waits for a drafter to free a slot", "cpu:0 is at work and does not end",
                       "cpu:1 waits for the other drafters to join the exchange", "devices.watchdog_s"});
}

TEST(Watchdog, AnyThreadThatGoesOnOrEndsIsProgress) {
  ThreadTimes one{.name = "one"}, other{.name = "other"};
  Watchdog watchdog(0.02);
  for (int i = 0; i < 4; ++i) {
    sleep_s(0.03);
    i % 2 == 0 ? one.activity.wait(WaitFor::filled_slot) : one.activity.work();
    watchdog.check({&one, &other});
  }
  sleep_s(0.03);
  watchdog.check({&other});
}

TEST(Watchdog, ASlowDiskOrTerminalIsNotJudged) {
  for (const WaitFor wait : {WaitFor::checkpoint, WaitFor::log}) {
    ThreadTimes drafter{.name = "cpu:1"};
    drafter.activity.wait(wait);
    Watchdog watchdog(0.01);
    for (int i = 0; i < 3; ++i) {
      watchdog.check({&drafter});
      sleep_s(0.02);
    }
    drafter.activity.work();
    watchdog.check({&drafter});
  }
}

// A device that is stuck at a point for longer than the watchdog looks on, and comes back in the end.
PipelineHooks stuck_at(PipelinePoint where, std::int64_t index) {
  return {.at = [=](PipelinePoint point, std::int64_t at, Slot*) {
    if (point == where && at == index) sleep_s(3);
  }};
}

TEST(StandStill, AStuckPeerInTheExchangeEndsTheRun) {
  TinyRun run;
  run.config.devices.drafters = {"cpu:1", "cpu:2"};
  run.config.devices.watchdog_s = 2;
  run.config.train.steps = 1000;
  std::atomic<int> came{0};
  run.hooks.at = [&](PipelinePoint point, std::int64_t step, Slot*) {
    if (point == PipelinePoint::exchange && step == 2 && came++ == 0) sleep_s(3);  // the first that comes
  };
  expect_error([&] { run.train(); },
               {"is at work and does not end", "waits for the other drafters to join the exchange"});
  EXPECT_EQ(pinned_bytes(), 0);
}

TEST(StandStill, SlotsThatNobodyReadsEndTheRun) {
  TinyRun run;
  run.config.devices.watchdog_s = 2;
  run.config.train.steps = 1000;
  run.hooks = stuck_at(PipelinePoint::drafter_pass, 3);
  expect_error([&] { run.train(); },
               {"feeder waits for a drafter to free a slot", "cpu:1 is at work and does not end",
                "cpu:0 waits for the feeder to pack a micro-batch"});
  EXPECT_EQ(pinned_bytes(), 0);
}

TEST(StandStillDeathTest, AThreadThatNeverComesBackIsLeftBehind) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  TinyRun run;
  run.config.devices.watchdog_s = 0.3;
  run.config.train.steps = 1000;
  run.hooks.at = [](PipelinePoint point, std::int64_t index, Slot*) {
    if (point == PipelinePoint::target_pass && index == 2) sleep_s(1e6);
  };
  EXPECT_EXIT(run.train(), testing::ExitedWithCode(1),
              "cpu:0 does not end; the process ends without it(.|\n)*nothing has gone on in this run");
}

TEST(OutOfMemory, InSetUpSaysWhereAndHowMuchAndLeavesNothing) {
  if (!heap_counts().watched) GTEST_SKIP() << "the sanitizers end the process when memory is refused";
  TinyRun run;
  run.config.train.blocks = 1 << 20;
  run.config.train.context_tokens = 1 << 24;
  expect_error([&] { run.train(); }, {"needs more memory than there is", "cpu:1 needs ", " GiB are available",
                                      "train.context_tokens="});
  EXPECT_EQ(pinned_bytes(), 0);
  EXPECT_FALSE(std::filesystem::exists(run.folder().metrics()));
}

}  // namespace
}  // namespace draftsmith
