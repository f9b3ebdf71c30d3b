// Runs of the real program in a process of its own, ended by signals.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "app/command_line.h"
#include "app/program.h"
#include "data/file.h"
#include "metrics/log_file.h"
#include "support/temporary_folder.h"
#include "train/checkpoint.h"
#include "train/run_folder.h"

namespace draftsmith {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::int64_t kSteps = 60;

class InterruptedRun : public testing::Test {
 protected:
  // A run's configuration and its folder.
  struct Run {
    fs::path config;
    RunFolder folder;
  };
  Run run(const std::string& name) const {
    const fs::path output = temporary_.path() / name;
    return {.config = temporary_.write(name + ".yaml", kProgramConfig + output.string() + "\n"),
            .folder = {output}};
  }
  int finish(const Run& run, const std::vector<std::string>& more) const {
    return Program(run.config, more, log()).wait();
  }
  fs::path log() const { return temporary_.path() / "printed.txt"; }

  TemporaryFolder temporary_;
};

bool writes_checkpoint(const RunFolder& folder, std::int64_t after_step) {
  if (logged_steps(folder) <= after_step || !fs::exists(folder.checkpoints())) return false;
  std::error_code gone;  // names come and go while they are listed
  for (fs::directory_iterator item(folder.checkpoints(), gone), end; !gone && item != end;
       item.increment(gone)) {
    if (item->path().filename().string().starts_with(kTemporaryPrefix)) return true;
  }
  return false;
}

std::vector<double> losses(const RunFolder& folder) {
  std::vector<double> values;
  for (const LogEntry& entry : read_log(folder.metrics())) values.push_back(std::get<StepRecord>(entry).loss);
  return values;
}

TEST_F(InterruptedRun, KilledBetweenStepsAndInsideACheckpointItGoesOnBitForBit) {
  const Run straight = run("straight"), killed = run("killed");
  ASSERT_EQ(finish(straight, {}), 0) << read_text_file(log());
  {
    Program program(killed.config, {}, log());
    const auto has_checkpoint = [&] { return !list_checkpoints(killed.folder).empty(); };
    ASSERT_TRUE(program.wait_until(has_checkpoint)) << read_text_file(log());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // into some step
    EXPECT_EQ(program.end(SIGKILL), 128 + SIGKILL);
  }
  for (const std::int64_t after_step : {8, 20}) {
    Program program(killed.config, {"--resume"}, log());
    ASSERT_TRUE(program.wait_until([&] { return writes_checkpoint(killed.folder, after_step); }))
        << read_text_file(log());
    EXPECT_EQ(program.end(SIGKILL), 128 + SIGKILL);
    EXPECT_LT(newest_checkpoint(killed.folder).step, kSteps);
  }
  ASSERT_EQ(finish(killed, {"--resume"}), 0) << read_text_file(log());
  const auto state = [](const RunFolder& folder) {
    return read_text_file(folder.checkpoint(kSteps) / "state.safetensors");
  };
  EXPECT_TRUE(state(straight.folder) == state(killed.folder));
  EXPECT_EQ(losses(straight.folder), losses(killed.folder));
  EXPECT_EQ(read_text_file(straight.folder.exported() / "model.safetensors"),
            read_text_file(killed.folder.exported() / "model.safetensors"));
  EXPECT_FALSE(writes_checkpoint(killed.folder, 0));  // nothing half-written is left
}

TEST_F(InterruptedRun, ASignalFinishesTheStepAndSaysHowToResume) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    const Run stopped = run("stopped" + std::to_string(signal));
    Program program(stopped.config, {"train.steps=100000"}, log());
    ASSERT_TRUE(program.wait_until([&] { return logged_steps(stopped.folder) >= 4; }))
        << read_text_file(log());
    EXPECT_EQ(program.end(signal), 128 + signal);
    EXPECT_NE(read_text_file(log()).find("--resume"), std::string::npos);
    EXPECT_EQ(newest_checkpoint(stopped.folder).step, logged_steps(stopped.folder));
  }
}

TEST_F(InterruptedRun, InspectShowsTheRunItsCheckpointsAndItsResolvedConfiguration) {
  const Run shown = run("shown");
  ASSERT_EQ(finish(shown, {"train.steps=2"}), 0) << read_text_file(log());
  const auto inspect = [](const fs::path& path) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(run_command_line({"inspect", path.string()}), 0);
    return testing::internal::GetCapturedStdout();
  };
  EXPECT_THAT(inspect(shown.folder.path),
              AllOf(HasSubstr("taps: [1]"), HasSubstr("mask_token_id: 4095"), HasSubstr("1 checkpoint\n"),
                    HasSubstr("step-00000002: not evaluated"), HasSubstr("exported to")));
  EXPECT_THAT(inspect(shown.folder.checkpoint(2)),
              AllOf(HasSubstr("checkpoint after step 2: 2 updates, 0 skipped"), HasSubstr("of 285"),
                    HasSubstr("master.layers.0.mlp.down_proj.weight")));
}

TEST_F(InterruptedRun, ASecondSignalEndsAtOnceAndTheLastCheckpointStaysGood) {
  const Run stopped = run("twice");
  Program program(stopped.config, {"train.steps=100000", "train.checkpoint.every=1"}, log());
  ASSERT_TRUE(program.wait_until([&] { return logged_steps(stopped.folder) >= 4; })) << read_text_file(log());
  program.send(SIGINT);
  program.send(SIGTERM);  // another signal, since two of one kind may be delivered as one
  const int code = program.wait();
  EXPECT_TRUE(code == 128 + SIGINT || code == 128 + SIGTERM) << code;
  EXPECT_GE(newest_checkpoint(stopped.folder).step, 1);
}

TEST_F(InterruptedRun, AnOptionThatChangesBitsCannotDifferOnResume) {
  const Run stopped = run("options");
  {
    Program program(stopped.config, {}, log());
    ASSERT_TRUE(program.wait_until([&] { return !list_checkpoints(stopped.folder).empty(); }))
        << read_text_file(log());
    program.end(SIGKILL);
  }
  EXPECT_EQ(finish(stopped, {"--resume", "train.optimizer.lr=1e-4", "train.steps=30"}), 1);
  const std::string printed = read_text_file(log());
  EXPECT_NE(printed.find("train.optimizer.lr was 0.003 and is 0.0001"), std::string::npos) << printed;
  EXPECT_NE(printed.find("train.steps was 60 and is 30"), std::string::npos) << printed;
  EXPECT_EQ(finish(stopped, {"--resume", "devices.queue.slots=3", "train.checkpoint.every=5"}), 0)
      << read_text_file(log());
}

}  // namespace
}  // namespace draftsmith
