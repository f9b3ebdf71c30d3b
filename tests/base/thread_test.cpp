#include "base/thread.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/no_threads.h"

namespace draftsmith {
namespace {

TEST(Thread, RunsItsBody) {
  bool ran = false;
  start_thread("one", [&] { ran = true; }).join();
  EXPECT_TRUE(ran);
}

TEST(Thread, OneThatCannotBeStartedIsNamedWithTheLimitsToRaise) {
  const NoThreads none;
  expect_error([] { start_thread("one", [] {}); },
               {"the thread 'one' cannot be started: ", "ulimit -u", "ulimit -v"});
}

}  // namespace
}  // namespace draftsmith
