#include "train/crew.h"

#include <atomic>

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/expect_error.h"
#include "support/no_threads.h"

namespace draftsmith {
namespace {

using namespace std::chrono_literals;

TEST(Crew, KnowsWhoRunsAndWhenAllHaveEnded) {
  const ThreadTimes quick{.name = "quick"}, slow{.name = "slow"};
  std::atomic<bool> may_end{false};
  Crew crew([] {});
  crew.start(quick, [] {});
  crew.start(slow, [&] {
    while (!may_end) std::this_thread::sleep_for(1ms);
  });
  while (crew.running().size() > 1) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(crew.running().front()->name, "slow");
  EXPECT_FALSE(crew.ended_within(5ms));
  may_end = true;
  EXPECT_TRUE(crew.ended_within(10s));
  crew.join();
  crew.rethrow();  // nothing
}

TEST(Crew, TheFirstFailureClosesAndIsKept) {
  const ThreadTimes first{.name = "first"}, second{.name = "second"};
  std::atomic<bool> closed{false};
  Crew crew([&] { closed = true; });
  crew.start(second, [&] {
    while (!closed) std::this_thread::sleep_for(1ms);
    throw Error("a consequence");
  });
  crew.start(first, [] { throw Error("the cause"); });
  crew.join_or_exit(10s);
  expect_error([&] { crew.rethrow(); }, {"the cause"});
}

TEST(Crew, NobodyWaitsForAThreadThatCouldNotBeStarted) {
  const ThreadTimes started{.name = "started"}, lacking{.name = "lacking"};
  Crew crew([] {});
  crew.start(started, [] {});
  {
    const NoThreads none;
    expect_error([&] { crew.start(lacking, [] {}); }, {"the thread 'lacking' cannot be started"});
  }
  EXPECT_TRUE(crew.ended_within(10s));
  EXPECT_TRUE(crew.running().empty());
}

}  // namespace
}  // namespace draftsmith
