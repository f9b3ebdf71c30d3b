// `draftsmith train` in a process of its own, for tests that end it or take its terminal away.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "train/run_folder.h"

namespace draftsmith {

// A small drafter of the demo's target on few documents; the folder of the run is appended.
inline const std::string kProgramConfig = R"(
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
  Program(const std::filesystem::path& config, const std::vector<std::string>& more,
          const std::filesystem::path& log) {
    const int file = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    start(config, more, file, file);
    ::close(file);
  }
  // What it prints goes to two open files.
  Program(const std::filesystem::path& config, const std::vector<std::string>& more, int output, int errors) {
    start(config, more, output, errors);
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
  void start(const std::filesystem::path& config, const std::vector<std::string>& more, int output,
             int errors) {
    std::vector<std::string> words = {DRAFTSMITH_PROGRAM, "train", config.string()};
    words.insert(words.end(), more.begin(), more.end());
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    process_ = ::fork();
    if (process_ != 0) return;
    std::signal(SIGPIPE, SIG_DFL);  // a command typed in this process may have changed it
    ::dup2(output, STDOUT_FILENO);
    ::dup2(errors, STDERR_FILENO);
    if (::chdir(DRAFTSMITH_SOURCE_DIR) == 0) ::execv(DRAFTSMITH_PROGRAM, pointers.data());
    ::_exit(99);
  }
  bool runs() const {
    siginfo_t ended = {};
    return ::waitid(P_PID, static_cast<id_t>(process_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           ended.si_pid == 0;
  }

  pid_t process_ = -1;
};

inline std::int64_t logged_steps(const RunFolder& folder) {
  if (!std::filesystem::exists(folder.metrics())) return 0;
  std::ifstream file(folder.metrics());
  std::int64_t lines = 0;
  for (std::string line; std::getline(file, line);) ++lines;
  return lines;
}

}  // namespace draftsmith
