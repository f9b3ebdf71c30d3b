// Runs of the real program whose terminal stalls or goes away, or whose log does.
#include <csignal>
#include <filesystem>
#include <string>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <stdlib.h>
#include <unistd.h>

#include "app/commands.h"
#include "app/program.h"
#include "data/file.h"
#include "support/stalled_pipe.h"
#include "support/temporary_folder.h"
#include "train/checkpoint.h"

namespace draftsmith {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class LostTerminal : public testing::Test {
 protected:
  std::filesystem::path config() const {
    return temporary_.write("run.yaml", kProgramConfig + folder().path.string() + "\n");
  }
  RunFolder folder() const { return {temporary_.path() / "run"}; }
  std::filesystem::path printed() const { return temporary_.path() / "printed.txt"; }

  // Steps and checkpoints go on, and one signal ends the run tidily.
  void expect_run_that_one_signal_ends(int errors) const {
    const int output = ::open(printed().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    Program program(config(), {"train.steps=100000"}, output, errors);
    ::close(output);
    EXPECT_TRUE(program.wait_until([&] { return logged_steps(folder()) >= 10; }));
    program.send(SIGTERM);
    const bool ends = !program.wait_until([] { return false; });
    EXPECT_EQ(ends ? program.wait() : program.end(SIGKILL), 128 + SIGTERM);
    EXPECT_THAT(read_text_file(printed()), HasSubstr("to go on: "));
    EXPECT_EQ(newest_checkpoint(folder()).step, logged_steps(folder()));
  }

  TemporaryFolder temporary_;
};

TEST_F(LostTerminal, APipeThatNobodyReadsStopsNoRun) {
  const StalledPipe pipe;
  expect_run_that_one_signal_ends(pipe.descriptor());
}

TEST_F(LostTerminal, ATerminalThatShowsNothingStopsNoRun) {
  const int screen = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  ASSERT_TRUE(screen >= 0 && ::grantpt(screen) == 0 && ::unlockpt(screen) == 0);
  const int terminal = ::open(::ptsname(screen), O_RDWR | O_NOCTTY | O_CLOEXEC);
  ASSERT_GE(terminal, 0);
  const int filling = ::open(::ptsname(screen), O_WRONLY | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
  while (::write(filling, "#", 1) == 1) continue;
  expect_run_that_one_signal_ends(terminal);
  for (const int descriptor : {filling, terminal, screen}) ::close(descriptor);
}

TEST_F(LostTerminal, ARunIsCompleteThoughItsReaderWentAway) {
  StalledPipe pipe;
  pipe.close_reader();
  EXPECT_EQ(Program(config(), {"train.steps=7"}, pipe.descriptor(), pipe.descriptor()).wait(), kExitError);
  EXPECT_EQ(newest_checkpoint(folder()).step, 7);
  EXPECT_EQ(logged_steps(folder()), 7);
  EXPECT_TRUE(std::filesystem::exists(folder().exported() / "model.safetensors"));
}

TEST_F(LostTerminal, ALogThatIsDeletedEndsTheRunWithACheckpoint) {
  Program program(config(), {"train.steps=100000"}, printed());
  ASSERT_TRUE(program.wait_until([&] { return logged_steps(folder()) >= 1; }));
  std::filesystem::remove(folder().metrics());
  EXPECT_EQ(program.wait(), kExitError);
  EXPECT_THAT(read_text_file(printed()),
              AllOf(HasSubstr("metrics.jsonl: the log was deleted"),
                    HasSubstr("The newest checkpoint is " + newest_checkpoint(folder()).path.string())));
}

}  // namespace
}  // namespace draftsmith
