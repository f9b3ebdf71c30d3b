#include "metrics/log_file.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace draftsmith {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class LogFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    path_ = folder_ / "metrics.jsonl";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string text() const {
    std::ifstream stream(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  void append(const std::string& more) const { std::ofstream(path_, std::ios::app) << more; }
  void write_steps(std::int64_t from, std::int64_t to) const {
    LogFile log(path_);
    for (std::int64_t step = from; step <= to; ++step) {
      log.write(StepRecord{.step = step, .loss = 1.0 / static_cast<double>(step)});
    }
  }

  std::filesystem::path folder_, path_;
};

TEST_F(LogFileTest, AStepReadsBackToTheSameBits) {
  StepRecord written;
  double next = 0.1;  // each member gets a value of its own
  visit_step_fields(written, [&](const char*, auto& member) {
    using Member = std::remove_reference_t<decltype(member)>;
    next *= 1.7;
    if constexpr (std::is_same_v<Member, OffsetShares>) {
      member = {.values = {1.0 / 3, 0.25}, .count = 2};
    } else if constexpr (std::is_same_v<Member, bool>) {
      member = true;
    } else if constexpr (std::is_same_v<Member, double>) {
      member = next;
    } else {
      member = static_cast<std::int64_t>(next * 100);
    }
  });
  LogFile(path_).write(written);
  const auto entries = read_log(path_);
  ASSERT_EQ(entries.size(), 1u);
  const auto& read = std::get<StepRecord>(entries[0]);
  EXPECT_EQ(read.step, written.step);
  EXPECT_EQ(read.loss, written.loss);
  EXPECT_EQ(read.gradient_norm, written.gradient_norm);
  EXPECT_EQ(read.accuracy_by_offset.count, 2);
  EXPECT_EQ(read.accuracy_by_offset.values, written.accuracy_by_offset.values);
  EXPECT_EQ(read.skipped, true);
  EXPECT_EQ(read.skipped_steps, written.skipped_steps);
  EXPECT_EQ(read.wall_s, written.wall_s);
  const std::string before = text();
  LogFile(path_).write(read);
  EXPECT_EQ(text(), before + before);  // every member, whatever is added
}

TEST_F(LogFileTest, AnEvaluationStandsBetweenSteps) {
  LogFile log(path_);
  log.write(StepRecord{.step = 1});
  log.write(
      EvaluationRecord{.step = 1, .loss = 2.5, .acceptance = 2.25, .conversations = 60, .seconds = 1.5});
  log.write(StepRecord{.step = 2});
  const auto entries = read_log(path_);
  ASSERT_EQ(entries.size(), 3u);
  const auto& evaluation = std::get<EvaluationRecord>(entries[1]);
  EXPECT_EQ(evaluation.acceptance, 2.25);
  EXPECT_EQ(evaluation.conversations, 60);
  EXPECT_EQ(std::get<StepRecord>(entries[2]).step, 2);
}

TEST_F(LogFileTest, ANumberThatIsNotFiniteIsNull) {
  LogFile(path_).write(StepRecord{.step = 1, .loss = std::numeric_limits<double>::infinity()});
  EXPECT_THAT(text(), AllOf(HasSubstr(R"("loss":null)"), HasSubstr(R"("wall_s":null)")));
  EXPECT_TRUE(std::isnan(std::get<StepRecord>(read_log(path_)[0]).loss));
}

TEST_F(LogFileTest, AKindAndAStepOpenEveryLine) {
  LogFile(path_).write(StepRecord{.step = 7, .epoch = 2});
  EXPECT_THAT(text(), testing::StartsWith(R"({"kind":"step","step":7,"epoch":2,)"));
}

TEST_F(LogFileTest, ATornLastLineIsPassedOver) {
  write_steps(1, 3);
  append(R"({"kind":"step","st)");
  EXPECT_EQ(read_log(path_).size(), 3u);
}

TEST_F(LogFileTest, ABrokenLineInsideIsRefusedWithItsNumber) {
  write_steps(1, 2);
  append("{\"kind\":\"step\"}\n");
  write_steps(3, 3);
  try {
    read_log(path_);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("metrics.jsonl:3: expected an entry of the log: "));
  }
}

TEST_F(LogFileTest, AnUnknownKindIsRefused) {
  append("{\"kind\":\"other\"}\n");
  try {
    read_log(path_);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr(":1: expected an entry of the log: a line's kind is step or evaluation"));
  }
}

TEST_F(LogFileTest, MoreOffsetsThanABlockHasAreRefused) {
  LogFile(path_).write(EvaluationRecord{});
  std::string line = text();
  const std::string empty = "\"accuracy_by_offset\":[]";
  std::string full = "\"accuracy_by_offset\":[0";
  for (int i = 0; i < 31; ++i) full += ",0";
  line.replace(line.find(empty), empty.size(), full + "]");
  std::ofstream(path_) << line;
  try {
    read_log(path_);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("at most 31 offsets, found 32"));
  }
}

TEST_F(LogFileTest, CuttingKeepsEntriesUpToAStepByteForByteAndDropsATornLine) {
  write_steps(1, 2);
  LogFile(path_).write(EvaluationRecord{.step = 2});
  const std::string kept = text();
  write_steps(3, 5);
  append("{\"torn");
  std::ofstream(path_.string() + ".cut") << "left by a kill\n";
  cut_to_step(path_, 2, LastEntry::evaluation);
  EXPECT_EQ(text(), kept);
  EXPECT_FALSE(std::filesystem::exists(path_.string() + ".cut"));
  write_steps(3, 3);
  EXPECT_EQ(read_log(path_).size(), 4u);
}

// An evaluation that will be made again is not logged twice.
TEST_F(LogFileTest, CuttingToAStepDropsTheEvaluationAfterItWhenAsked) {
  write_steps(1, 1);
  LogFile(path_).write(EvaluationRecord{.step = 1});
  write_steps(2, 2);
  const std::string kept = text();
  LogFile(path_).write(EvaluationRecord{.step = 2});
  cut_to_step(path_, 2, LastEntry::step);
  EXPECT_EQ(text(), kept);
}

TEST_F(LogFileTest, CuttingWithoutAFileDoesNothing) {
  cut_to_step(path_, 3, LastEntry::evaluation);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(LogFileTest, AFileThatCannotBeOpenedIsNamed) {
  try {
    LogFile log(folder_ / "missing" / "metrics.jsonl");
    FAIL() << "opened";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("missing/metrics.jsonl: the log cannot be opened: No such file"));
  }
  try {
    read_log(path_);
    FAIL() << "read";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("metrics.jsonl: the log cannot be read: No such file"));
  }
  try {
    read_log(folder_);
    FAIL() << "read";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(folder_.string() + ": expected the log, a file, found a folder"));
  }
}

TEST_F(LogFileTest, AFullDiskIsAnError) {
  LogFile log("/dev/full");
  try {
    log.write(StepRecord{});
    FAIL() << "written";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("/dev/full: the log cannot be written: No space left"));
  }
}

TEST_F(LogFileTest, ALogThatLostItsNameIsAnError) {
  const auto error_of = [](LogFile& log) -> std::string {
    log.write(StepRecord{.step = 1});
    try {
      log.sync();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  LogFile deleted(path_);
  EXPECT_EQ(error_of(deleted), "");
  std::filesystem::remove(path_);
  EXPECT_THAT(error_of(deleted), HasSubstr("metrics.jsonl: the log was deleted, moved or replaced"));
  LogFile moved(path_);
  std::filesystem::rename(path_, folder_ / "elsewhere");
  EXPECT_THAT(error_of(moved), HasSubstr("metrics.jsonl: the log was deleted, moved or replaced"));
  std::ofstream{path_};
  EXPECT_THAT(error_of(moved), HasSubstr("metrics.jsonl: the log was deleted, moved or replaced"));
}

TEST_F(LogFileTest, CuttingSaysWhichStepsHaveNoEntry) {
  using Missing = std::vector<MissingSteps>;
  EXPECT_EQ(cut_to_step(path_, 3, LastEntry::evaluation), (Missing{{1, 3}}));
  EXPECT_EQ(cut_to_step(path_, 0, LastEntry::evaluation), Missing{});
  write_steps(4, 6);
  LogFile(path_).write(EvaluationRecord{.step = 8});  // of no step's entry
  write_steps(8, 9);
  EXPECT_EQ(cut_to_step(path_, 12, LastEntry::evaluation), (Missing{{1, 3}, {7, 7}, {10, 12}}));
  EXPECT_EQ(cut_to_step(path_, 6, LastEntry::step), (Missing{{1, 3}}));
  std::ofstream{path_};
  write_steps(1, 6);
  EXPECT_EQ(cut_to_step(path_, 5, LastEntry::step), Missing{});
}

}  // namespace
}  // namespace draftsmith
