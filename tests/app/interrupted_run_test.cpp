// Runs of the real program in a process of its own, ended by signals.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/command_line.h"
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

// A small drafter of the demo's target on few documents.
const std::string kConfig = R"(
target: examples/demo/target
drafter: {layers: 1, block_size: 4, taps: [1], intermediate: 64}
data: {train: examples/demo/eval.jsonl, max_length: 160}
train:
  steps: 60
  context_tokens: 160
  blocks: 16
  anchors_per_document: 4
  checkpoint: {every: 3, keep: 3}
devices: {targets: ["cpu:0"], drafters: ["cpu:1", "cpu:2"], queue: {slots: 2}, threads: 1}
output: )";

class Program {
 public:
  // Starts `draftsmith train` in the repository's root; what it prints goes to `log`.
  Program(const fs::path& config, const std::vector<std::string>& more, const fs::path& log) {
    std::vector<std::string> words = {DRAFTSMITH_PROGRAM, "train", config.string()};
    words.insert(words.end(), more.begin(), more.end());
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    process_ = ::fork();
    if (process_ != 0) return;
    const int file = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    ::dup2(file, STDOUT_FILENO);
    ::dup2(file, STDERR_FILENO);
    if (::chdir(DRAFTSMITH_SOURCE_DIR) == 0) ::execv(DRAFTSMITH_PROGRAM, pointers.data());
    ::_exit(99);
  }
  ~Program() {
    if (process_ > 0) end(SIGKILL);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Whether `condition` came true before the process ended or a minute passed.
  bool wait_until(const std::function<bool()>& condition) const {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < limit && runs()) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return false;
  }
  void send(int signal) const { ::kill(process_, signal); }
  // The exit code, or 128 + the signal that ended it.
  int wait() {
    int status = 0;
    ::waitpid(process_, &status, 0);
    process_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  int end(int signal) {
    send(signal);
    return wait();
  }

 private:
  bool runs() const {
    siginfo_t ended = {};
    return ::waitid(P_PID, static_cast<id_t>(process_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           ended.si_pid == 0;
  }

  pid_t process_ = -1;
};

class InterruptedRun : public testing::Test {
 protected:
  // A run's configuration and its folder.
  struct Run {
    fs::path config;
    RunFolder folder;
  };
  Run run(const std::string& name) const {
    const fs::path output = temporary_.path() / name;
    return {.config = temporary_.write(name + ".yaml", kConfig + output.string() + "\n"), .folder = {output}};
  }
  int finish(const Run& run, const std::vector<std::string>& more) const {
    return Program(run.config, more, log()).wait();
  }
  fs::path log() const { return temporary_.path() / "printed.txt"; }

  TemporaryFolder temporary_;
};

std::int64_t logged_steps(const RunFolder& folder) {
  if (!fs::exists(folder.metrics())) return 0;
  std::ifstream file(folder.metrics());
  std::int64_t lines = 0;
  for (std::string line; std::getline(file, line);) ++lines;
  return lines;
}

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
