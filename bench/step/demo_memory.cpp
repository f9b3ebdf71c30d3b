// The demo's memory, as Linux counts it for a process of its own.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "bench/step/measure.h"

namespace draftsmith::bench {
namespace {

// A folder that is removed again.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "draftsmith-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw Error(fmt::format("{} cannot be made; set TMPDIR", name));
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Runs it to its end, what it prints going to `log`. The most kibibytes that it had resident.
std::int64_t peak_kibibytes(std::vector<std::string> command, const std::filesystem::path& log) {
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    const int file = ::open(log.c_str(), O_WRONLY | O_CREAT, 0600);
    ::dup2(file, STDOUT_FILENO);
    ::dup2(file, STDERR_FILENO);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  int status = 0;
  rusage usage{};
  if (child < 0 || ::wait4(child, &status, 0, &usage) != child || status != 0) {
    throw Error(
        fmt::format("{} did not train the demo; name draftsmith with --program and call from the "
                    "folder that holds examples/demo. It printed:\n{}",
                    command[0], text_of(log)));
  }
  return usage.ru_maxrss;
}

}  // namespace

void measure_demo_memory(const Options& options, Report& report) {
  const TemporaryFolder folder;
  const std::int64_t kibibytes = peak_kibibytes(
      {options.program, "train", "examples/demo/run.yaml", "train.steps=40", "train.eval.every=20",
       "train.checkpoint.every=20", fmt::format("output={}/run", folder.path().string())},
      folder.path() / "log");
  report.add({.work = "demo, most resident memory",
              .ours = static_cast<double>(kibibytes) / (1 << 20),
              .unit = "GiB",
              .goal = {.at_most = 1.5, .at_least = {}}});
}

}  // namespace draftsmith::bench
