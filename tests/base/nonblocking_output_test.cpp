#include "base/nonblocking_output.h"

#include <cerrno>
#include <csignal>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/shown_text.h"
#include "support/stalled_pipe.h"

namespace draftsmith {
namespace {

TEST(NonblockingOutput, APipeThatIsFullTakesNothingUntilItIsRead) {
  StalledPipe pipe;
  NonblockingOutput output(pipe.descriptor());
  errno = 7;
  EXPECT_EQ(output.write("text"), 0u);
  EXPECT_EQ(errno, 7);
  EXPECT_FALSE(output.wait(std::chrono::milliseconds(0)));
  pipe.read();
  EXPECT_TRUE(output.wait(std::chrono::milliseconds(0)));
  EXPECT_EQ(output.write("text"), 4u);
  EXPECT_EQ(pipe.read(), "text");
  EXPECT_EQ(::fcntl(pipe.descriptor(), F_GETFL) & O_NONBLOCK, 0);  // others write to it too
}

// poll() calls it writable, and a write that blocks would wait for more room.
TEST(NonblockingOutput, ATerminalWithRoomForAPartTakesThatPart) {
  const int screen = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  ASSERT_TRUE(screen >= 0 && ::grantpt(screen) == 0 && ::unlockpt(screen) == 0);
  const int terminal = ::open(::ptsname(screen), O_RDWR | O_NOCTTY | O_CLOEXEC);
  ASSERT_GE(terminal, 0);
  NonblockingOutput output(terminal);
  const std::string text(1 << 20, '#');
  EXPECT_LT(output.write(text), text.size());
  for (int reads = 0; reads < 1000 && !output.wait(std::chrono::milliseconds(5)); ++reads) {
    std::string shown(128, '\0');
    ASSERT_GT(::read(screen, shown.data(), shown.size()), 0);
  }
  EXPECT_LT(output.write(text), text.size());
  ::close(terminal);
  ::close(screen);
}

TEST(NonblockingOutput, AReaderThatWentAwayIsNoticed) {
  std::signal(SIGPIPE, SIG_IGN);
  StalledPipe pipe;
  NonblockingOutput output(pipe.descriptor());
  pipe.close_reader();
  EXPECT_EQ(output.write("text"), 4u);
  EXPECT_TRUE(output.gone());
  std::signal(SIGPIPE, SIG_DFL);
}

// The place in it belongs to the descriptor that others write to.
TEST(NonblockingOutput, AnOrdinaryFileIsWrittenWhereItStands) {
  ShownText file;
  ASSERT_EQ(::write(file.descriptor(), "before ", 7), 7);
  EXPECT_EQ(NonblockingOutput(file.descriptor()).write("after"), 5u);
  EXPECT_EQ(file.str(), "before after");
}

}  // namespace
}  // namespace draftsmith
