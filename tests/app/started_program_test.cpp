// The real program, started by a shell in ways that a terminal does not.
#include <cstdlib>
#include <string>

#include <gmock/gmock.h>
#include <sys/wait.h>

#include "app/scene.h"
#include "train/run_folder.h"

namespace draftsmith {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// The exit code of a shell's line in which $0 is the program and $1 a run's configuration.
int shell(const Scene& scene, const std::string& line) {
  const std::string command =
      "sh -c '" + line + "' " DRAFTSMITH_PROGRAM " " + (scene.path() / "run.yaml").string();
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(StartedProgram, ClosedStandardStreamsLendTheirNumbersToNoFileOfTheRun) {
  for (const std::string closed : {"2>&-", ">&- 2>&-", "<&- >&- 2>&-"}) {
    const Scene scene;
    const bool loses_output = closed.find(" >&-") != std::string::npos || closed.starts_with(">&-");
    EXPECT_EQ(shell(scene, "\"$0\" train \"$1\" " + closed), loses_output ? 1 : 0) << closed;
    const RunFolder folder{scene.path() / "run"};
    EXPECT_THAT(read_text_file(folder.metrics()), AllOf(StartsWith("{"), Not(HasSubstr("documents"))))
        << closed;
    EXPECT_THAT(read_text_file(folder.path / ".lock"), Not(HasSubstr("documents"))) << closed;
  }
}

TEST(StartedProgram, ALimitOfFileSizesIsAnErrorThatNamesTheFile) {
  const Scene scene;
  const std::string printed = (scene.path() / "printed.txt").string();
  EXPECT_EQ(shell(scene, "ulimit -f 64; \"$0\" train \"$1\" 2> " + printed), 1);
  EXPECT_THAT(read_text_file(printed), AllOf(HasSubstr("File too large"), HasSubstr("state.safetensors")));
}

}  // namespace
}  // namespace draftsmith
