// Waits of a drafter: those that fill the pipeline, and those in its steady state.
#include "train/waits.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "train/tiny_run.h"

namespace draftsmith {
namespace {

constexpr double kDelay_s = 0.3;

// The report of a run whose drafter waits for one micro-batch at least so long: the target takes its time only once
// that wait has begun, however late the drafter's thread comes to it.
TrainReport run_with_late_pass(std::int64_t index) {
  TinyRun run;
  std::promise<void> wait_began;
  run.hooks.at = [&](PipelinePoint point, std::int64_t at, Slot*) {
    if (at != index) return;
    if (point == PipelinePoint::awaits_features) wait_began.set_value();
    if (point == PipelinePoint::target_pass) {
      wait_began.get_future().wait();
      std::this_thread::sleep_for(std::chrono::duration<double>(kDelay_s));
    }
  };
  return run.train().report.value();
}

const ThreadTimes& times_of(const TrainReport& report, const std::string& name) {
  return *std::find_if(report.threads.begin(), report.threads.end(),
                       [&](const ThreadTimes& times) { return times.name == name; });
}

double for_features(const Waits& waits_s) { return waits_s[static_cast<std::size_t>(WaitFor::filled_slot)]; }

TEST(SetUpTimes, AreToldByPhase) {
  TinyRun run;
  const TrainReport report = run.train().report.value();
  const SetUpTimes& times = report.set_up;
  for (const double phase_s : {times.products_s, times.allocate_s, times.first_state_s, times.load_s,
                               times.restore_s, times.warm_up_s, report.last_checkpoint_s}) {
    EXPECT_GT(phase_s, 0);
  }
  EXPECT_GE(times.total_s, times.products_s + times.allocate_s + times.first_state_s + times.load_s +
                               times.restore_s + times.warm_up_s);
  EXPECT_THAT(report_text(report), testing::ContainsRegex("set-up [0-9.]+ s: products [0-9.]+, memory"));
  EXPECT_THAT(report_json(report), testing::HasSubstr("\"set_up_seconds\""));
}

TEST(Waits, ForTheFirstFeaturesAreToldApart) {
  const TrainReport report = run_with_late_pass(0);
  const ThreadTimes& drafter = times_of(report, "cpu:1");
  ASSERT_TRUE(drafter.first_features);
  EXPECT_GE(drafter.first_features->total_s, kDelay_s);
  EXPECT_GE(for_features(drafter.first_features->waits_s), kDelay_s);
  EXPECT_NEAR(for_features(drafter.steady().waits_s),
              for_features(drafter.waits_s) - for_features(drafter.first_features->waits_s), 1e-9);
  EXPECT_NEAR(drafter.steady().total_s, drafter.total_s - drafter.first_features->total_s, 1e-9);
  EXPECT_THAT(report_text(report),
              testing::ContainsRegex("cpu:1: .* s, first features after [0-9.]+ s, from"));
  EXPECT_THAT(report_json(report), testing::HasSubstr("\"from_first_features\""));
}

TEST(Waits, ForLaterFeaturesAreOfTheSteadyState) {
  const TrainReport report = run_with_late_pass(3);
  const ThreadTimes& drafter = times_of(report, "cpu:1");
  EXPECT_GE(for_features(drafter.steady().waits_s), kDelay_s);
  EXPECT_FALSE(times_of(report, "cpu:0").first_features);  // a target has none
}

}  // namespace
}  // namespace draftsmith
