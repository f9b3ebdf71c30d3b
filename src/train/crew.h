// The threads of a run, and the main thread's way to wait for them. The first failure of any is kept and ends the
// run for all.
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "train/failure.h"
#include "train/waits.h"

namespace draftsmith {

// Main thread only, but for what the threads themselves do.
class Crew {
 public:
  // `close` ends every wait of every thread; it may be called by several at once.
  explicit Crew(std::function<void()> close) : close_(std::move(close)) {}
  ~Crew() { join(); }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // Starts a thread; `times` are those that body keeps. Throws Error when the system gives none.
  void start(const ThreadTimes& times, std::function<void()> body);

  // Blocks until all threads have ended, and no longer than `duration`. Whether they have.
  bool ended_within(std::chrono::milliseconds duration);
  // Of the threads that have not ended.
  std::vector<const ThreadTimes*> running();
  // Called in a catch clause, by any thread: keeps the failure and closes.
  void fail();
  void join();
  // As join(), but after a failure a thread may be stuck where nothing wakes it, in a device that hangs: when one has
  // not ended within `patience`, the first failure is told and the process ends, with 1. Files are whole at any moment.
  void join_or_exit(std::chrono::milliseconds patience);
  // Throws the first failure, if there was one.
  void rethrow() { failure_.rethrow(); }

 private:
  struct Member {
    const ThreadTimes& times;
    std::jthread thread;
    bool ended = false;  // guarded by mutex_
  };

  const std::function<void()> close_;
  std::list<Member> members_;  // whose places do not move
  // Shared.
  FirstFailure failure_;
  Mutex mutex_;
  Condition changed_;
};

}  // namespace draftsmith
