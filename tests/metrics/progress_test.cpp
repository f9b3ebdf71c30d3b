#include "metrics/progress.h"

#include <cmath>
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/shown_text.h"
#include "support/stalled_pipe.h"

namespace draftsmith {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StrEq;

constexpr const char* kClear = "\r\x1b[K";

// A progress line with a clock that the test turns.
struct Watched {
  explicit Watched(std::int64_t columns)
      : progress(
            {.descriptor = out.descriptor(),
             .total_steps = 400,
             .now_s = [this] { return now_s; },
             .columns = columns ? std::function<std::int64_t()>([columns] { return columns; }) : nullptr}) {}

  // What was written since the last call.
  std::string take() { return out.take(); }

  ShownText out;
  double now_s = 100;
  Progress progress;
};

StepRecord step_record(std::int64_t step) {
  return {.step = step,
          .loss = 2.309,
          .accuracy = 0.412,
          .acceptance = 2.1,
          .tokens_per_second = 9812,
          .queue_filled = 3,
          .queue_slots = 4};
}

TEST(Progress, TheLineNamesWhatAPersonWatches) {
  Watched watched(120);
  watched.progress.show(step_record(100));
  EXPECT_EQ(
      watched.take(),
      std::string(kClear) + "step 100/400  loss 2.31  acc 0.41  accept 2.10  9.81k tok/s  queue 3/4  eta -");
  watched.now_s = 105;  // 20 steps in 5 s, 280 to go
  watched.progress.show(step_record(120));
  EXPECT_EQ(watched.take(),
            std::string(kClear) +
                "step 120/400  loss 2.31  acc 0.41  accept 2.10  9.81k tok/s  queue 3/4  eta 1m10s");
}

TEST(Progress, SkippedStepsAreShownOnceThereAreSome) {
  Watched watched(200);
  StepRecord record = step_record(1);
  record.skipped_steps = 2;
  watched.progress.show(record);
  EXPECT_THAT(watched.take(), HasSubstr("  skipped 2"));
}

TEST(Progress, ATerminalIsRedrawnAtMostTenTimesASecond) {
  Watched watched(120);
  watched.progress.show(step_record(1));
  watched.take();
  watched.now_s += 0.09;
  watched.progress.show(step_record(2));
  EXPECT_EQ(watched.take(), "");
  watched.now_s += 0.02;
  watched.progress.show(step_record(3));
  EXPECT_THAT(watched.take(), HasSubstr("step 3/400"));
}

TEST(Progress, TheLineIsCutToTheWidthByWholeFields) {
  const std::string fields = "step 7/400  loss 2.31";
  for (const auto& [columns, expected] : {std::pair{22, fields}, std::pair{21, std::string("step 7/400")}}) {
    Watched watched(columns);
    watched.progress.show(step_record(7));
    EXPECT_EQ(watched.take(), kClear + expected);
  }
}

TEST(Progress, AMessageStandsAboveTheMovingLine) {
  Watched watched(120);
  watched.progress.message("before");
  EXPECT_EQ(watched.take(), "before\n");
  watched.progress.show(step_record(1));
  const std::string line = watched.take();
  watched.progress.message("checkpoint written");
  EXPECT_EQ(watched.take(), std::string(kClear) + "checkpoint written\n" + line.substr(line.find("step")));
}

TEST(Progress, FinishingLeavesTheNewestLine) {
  Watched watched(120);
  watched.progress.show(step_record(1));
  watched.progress.show(step_record(2));
  watched.take();
  watched.progress.finish();
  EXPECT_THAT(watched.take(), testing::AllOf(HasSubstr("step 2/400"), testing::EndsWith("\n")));
  watched.progress.finish();
  EXPECT_EQ(watched.take(), "");
  watched.progress.message("after");
  EXPECT_EQ(watched.take(), "after\n");
}

TEST(Progress, ElsewhereThereIsAPlainLineEveryTenSecondsAndAtTheEnd) {
  Watched watched(0);
  watched.progress.show(step_record(1));
  EXPECT_THAT(watched.take(), testing::StartsWith("step 1/400  loss"));
  watched.now_s += 9.9;
  watched.progress.show(step_record(2));
  EXPECT_EQ(watched.take(), "");
  watched.now_s += 0.2;
  watched.progress.show(step_record(3));
  watched.progress.show(step_record(4));
  watched.progress.message("a message");
  watched.progress.finish();
  const std::string text = watched.take();
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, testing::MatchesRegex("step 3/400[^\n]*\na message\nstep 4/400[^\n]*\n"));
}

TEST(Progress, ALossThatIsNotFiniteIsShown) {
  Watched watched(120);
  StepRecord record = step_record(1);
  record.loss = NAN;
  watched.progress.show(record);
  EXPECT_THAT(watched.take(), HasSubstr("loss nan"));
}

// A progress line for nobody in particular, on a pipe that takes nothing.
struct Stalled {
  StalledPipe pipe;
  Progress progress{
      {.descriptor = pipe.descriptor(), .total_steps = 400, .now_s = [] { return 0.0; }, .columns = {}}};
};

TEST(Progress, AStalledTerminalIsNotWaitedForAndShowsItsMessagesLater) {
  Stalled stalled;
  stalled.progress.show(step_record(1));
  stalled.progress.message("one");
  stalled.progress.message("two");
  EXPECT_EQ(stalled.pipe.read(), "");
  stalled.progress.message("three");
  EXPECT_EQ(stalled.pipe.read(), "one\ntwo\nthree\n");
  stalled.progress.finish();
  EXPECT_THAT(stalled.pipe.read(), testing::StartsWith("step 1/400"));
}

TEST(Progress, WhatAStalledTerminalMissedIsBoundedAndCounted) {
  Stalled stalled;
  for (int message = 1; message <= 107; ++message) stalled.progress.message(std::to_string(message));
  stalled.pipe.read();
  stalled.progress.message("last");
  EXPECT_THAT(stalled.pipe.read(),
              testing::AllOf(testing::StartsWith("... 8 messages were not shown\n9\n10\n"),
                             testing::EndsWith("106\n107\nlast\n")));
}

TEST(Progress, ALongMessageGoesOnWhereAStalledTerminalCutIt) {
  Stalled stalled;
  stalled.pipe.read();
  const std::string message = std::string(4000, 'a') + std::string(4000, 'b');
  stalled.progress.message(message);
  std::string shown = stalled.pipe.read();
  EXPECT_LT(shown.size(), message.size());
  stalled.progress.message("next");
  shown += stalled.pipe.read();
  EXPECT_EQ(shown, message + "\nnext\n");
}

TEST(Progress, FinishingGivesAStalledTerminalUp) {
  Stalled stalled;
  stalled.progress.message("never shown");
  stalled.progress.finish();
  EXPECT_EQ(stalled.pipe.read(), "");
}

TEST(Progress, ATerminalThatIsGoneIsNotShownToAnyMore) {
  ASSERT_NE(std::signal(SIGPIPE, SIG_IGN), SIG_ERR);
  Stalled stalled;
  stalled.pipe.close_reader();
  stalled.progress.show(step_record(1));
  stalled.progress.message("nobody reads this");
  stalled.progress.finish();
  std::signal(SIGPIPE, SIG_DFL);
}

TEST(Progress, CountsHaveThreeSignificantDigits) {
  EXPECT_EQ(short_count(0), "0");
  EXPECT_EQ(short_count(3.4), "3");
  EXPECT_EQ(short_count(999), "999");
  EXPECT_EQ(short_count(999.6), "1.00k");
  EXPECT_EQ(short_count(9999), "10.0k");
  EXPECT_EQ(short_count(123456), "123k");
  EXPECT_EQ(short_count(1.25e6), "1.25M");
  EXPECT_EQ(short_count(5e12), "5000G");
  EXPECT_EQ(short_count(NAN), "-");
}

TEST(Progress, DurationsHaveTwoUnits) {
  EXPECT_EQ(short_duration(0.4), "0s");
  EXPECT_EQ(short_duration(59.6), "1m00s");
  EXPECT_EQ(short_duration(72), "1m12s");
  EXPECT_EQ(short_duration(3 * 3600 + 5 * 60 + 59), "3h05m");
  EXPECT_EQ(short_duration(2 * 86400 + 4 * 3600), "2d04h");
  EXPECT_EQ(short_duration(NAN), "-");
}

}  // namespace
}  // namespace draftsmith
