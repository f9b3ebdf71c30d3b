#include "metrics/recorder.h"

#include <filesystem>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/log.h"
#include "support/shown_text.h"

namespace draftsmith {
namespace {

using testing::HasSubstr;

class RecorderTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::path(testing::TempDir()) /
            (std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + ".jsonl");
    std::filesystem::remove(path_);
  }
  void TearDown() override { std::filesystem::remove(path_); }

  Progress plain_progress() {
    return Progress(
        {.descriptor = out_.descriptor(), .total_steps = 10, .now_s = [] { return 0.0; }, .columns = {}});
  }

  std::filesystem::path path_;
  ShownText out_;  // the log thread's until close()
};

TEST_F(RecorderTest, WhatIsHandedOverReachesTheFileInOrder) {
  Recorder recorder(LogFile(path_), plain_progress(), [] {});
  for (std::int64_t step = 1; step <= 1000; ++step) recorder.record(StepRecord{.step = step});
  recorder.record(
      EvaluationRecord{.step = 1000, .loss = 1.5, .acceptance = 2.25, .conversations = 60, .seconds = 3});
  recorder.close();
  const auto entries = read_log(path_);
  ASSERT_EQ(entries.size(), 1001u);
  for (std::int64_t step = 1; step <= 1000; ++step) {
    EXPECT_EQ(std::get<StepRecord>(entries[static_cast<std::size_t>(step - 1)]).step, step);
  }
  EXPECT_EQ(std::get<EvaluationRecord>(entries.back()).acceptance, 2.25);
  EXPECT_THAT(out_.str(),
              HasSubstr("step 1000: held-out loss 1.500, acceptance 2.250 over 60 conversations (3.0 s)"));
}

TEST_F(RecorderTest, AfterAFlushTheFileHoldsWhatThisThreadHandedOver) {
  Recorder recorder(LogFile(path_), plain_progress(), [] {});
  std::vector<std::thread> threads;
  for (std::int64_t thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::int64_t i = 1; i <= 20; ++i) {
        recorder.record(StepRecord{.step = i, .epoch = thread});
        recorder.flush();
        std::int64_t mine = 0;
        for (const LogEntry& entry : read_log(path_)) mine += std::get<StepRecord>(entry).epoch == thread;
        EXPECT_EQ(mine, i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(RecorderTest, MessagesFromSeveralThreadsStayWhole) {
  Recorder recorder(LogFile(path_), plain_progress(), [] {});
  std::vector<std::thread> threads;
  for (char letter : {'a', 'b'}) {
    threads.emplace_back([&, letter] {
      for (int i = 0; i < 50; ++i) recorder.say(std::string(40, letter));
    });
  }
  for (std::thread& thread : threads) thread.join();
  recorder.close();
  std::istringstream lines(out_.str());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) EXPECT_EQ(line, std::string(40, line.front()));
  EXPECT_EQ(count, 100);
}

TEST_F(RecorderTest, ASkippedStepIsSaidAtOnce) {
  Recorder recorder(LogFile(path_), plain_progress(), [] {});
  recorder.record(StepRecord{.step = 3, .skipped = true, .skipped_steps = 2});
  recorder.close();
  EXPECT_THAT(out_.str(),
              HasSubstr("step 3: the loss or the gradient is not finite; no update is made (2 so far)\n"));
}

TEST_F(RecorderTest, WhatIsNoNumberIsShownWithoutASign) {
  Recorder recorder(LogFile(path_), plain_progress(), [] {});
  recorder.record(StepRecord{.step = 1, .loss = -kNotMeasured, .accuracy = -kNotMeasured});
  recorder.record(EvaluationRecord{.step = 1, .loss = -kNotMeasured, .acceptance = -kNotMeasured});
  recorder.close();
  EXPECT_THAT(out_.str(), testing::AllOf(HasSubstr("held-out loss nan, acceptance nan"),
                                         HasSubstr("loss nan  acc nan"), testing::Not(HasSubstr("-nan"))));
}

TEST_F(RecorderTest, AFullDiskIsSaidOnceStopsNobodyAndIsThrownAtTheEnd) {
  int failures = 0;
  Recorder recorder(LogFile("/dev/full"), plain_progress(), [&] { ++failures; });
  for (std::int64_t step = 1; step <= 1000; ++step) {
    recorder.record(StepRecord{.step = step});
    recorder.flush();
  }
  recorder.say("a message still comes through");
  try {
    recorder.close();
    FAIL() << "closed";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the log cannot be written"));
  }
  EXPECT_THROW(recorder.close(), Error);
  EXPECT_EQ(failures, 1);
  EXPECT_THAT(out_.str(), testing::AllOf(HasSubstr("No space left on device; nothing more is logged\n"),
                                         HasSubstr("a message still comes through\n")));
}

TEST_F(RecorderTest, LinesOfTheLogAreMessagesWhileTheSinkLives) {
  Recorder recorder(LogFile(path_), plain_progress(), [] {});
  {
    const RecorderLogSink sink(recorder);
    log_info("through the recorder");
  }
  testing::internal::CaptureStderr();
  log_info("straight to stderr");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("straight to stderr"));
  recorder.close();
  EXPECT_THAT(out_.str(),
              testing::AllOf(HasSubstr("through the recorder\n"), testing::Not(HasSubstr("straight"))));
}

TEST_F(RecorderTest, DestructionWritesWhatIsLeft) {
  {
    Recorder recorder(LogFile(path_), plain_progress(), [] {});
    recorder.record(StepRecord{.step = 1});
  }
  EXPECT_EQ(read_log(path_).size(), 1u);
}

}  // namespace
}  // namespace draftsmith
