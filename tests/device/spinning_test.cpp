#include "device/cpu/spinning.h"

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace draftsmith {
namespace {

// What the program finds once it has started itself again; run by the test below.
TEST(Spinning, DISABLED_InTheProgram) {
  limit_spinning(nullptr);  // returns: nothing is to be done any more
  EXPECT_EQ(std::string(std::getenv("GOMP_SPINCOUNT")), "3000");
  char name[16] = {};  // what ps and pgrep know it by
  ::prctl(PR_GET_NAME, name);
  EXPECT_STREQ(name, "test_device");
}

TEST(Spinning, IsLimitedByStartingOnceMore) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::unsetenv("GOMP_SPINCOUNT");
    ::unsetenv("OMP_WAIT_POLICY");
    std::string words[] = {"test_device", "--gtest_also_run_disabled_tests",
                           "--gtest_filter=Spinning.DISABLED_InTheProgram"};
    char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
    limit_spinning(arguments);
    ::_exit(99);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(Spinning, IsLeftToWhoeverSetIt) {
  ::setenv("OMP_WAIT_POLICY", "passive", 1);
  limit_spinning(nullptr);
  EXPECT_EQ(std::string(std::getenv("OMP_WAIT_POLICY")), "passive");
  ::unsetenv("OMP_WAIT_POLICY");
}

}  // namespace
}  // namespace draftsmith
