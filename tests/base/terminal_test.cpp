#include "base/terminal.h"

#include <cstdlib>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace draftsmith {
namespace {

class Terminal : public testing::Test {
 protected:
  Terminal() : screen_(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
    ::grantpt(screen_);
    ::unlockpt(screen_);
    terminal_ = ::open(::ptsname(screen_), O_RDWR | O_NOCTTY | O_CLOEXEC);
    ::setenv("TERM", "xterm", 1);
    ::unsetenv("NO_COLOR");
  }
  ~Terminal() override {
    ::close(terminal_);
    ::close(screen_);
  }

  int screen_, terminal_ = -1;
};

TEST_F(Terminal, IsColouredUnlessNoColorIsSet) {
  EXPECT_TRUE(wants_colours(terminal_));
  ::setenv("NO_COLOR", "", 1);
  EXPECT_TRUE(wants_colours(terminal_));
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(wants_colours(terminal_));
  EXPECT_TRUE(follows_escapes(terminal_));
}

TEST_F(Terminal, ADumbOneGetsNoEscapes) {
  ::setenv("TERM", "dumb", 1);
  EXPECT_FALSE(follows_escapes(terminal_));
  EXPECT_FALSE(wants_colours(terminal_));
}

TEST_F(Terminal, APipeIsNone) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_FALSE(follows_escapes(ends[1]));
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace draftsmith
