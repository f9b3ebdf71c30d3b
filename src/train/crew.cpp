#include "train/crew.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/core.h>
#include <unistd.h>

#include "base/failure_text.h"
#include "base/nonblocking_output.h"
#include "base/thread.h"

namespace draftsmith {

void Crew::fail() {
  failure_.keep_current();
  close_();
}

void Crew::start(const ThreadTimes& times, std::function<void()> body) {
  Member& member = members_.emplace_back(Member{.times = times});
  try {
    member.thread = start_thread(times.name, [this, &member, body = std::move(body)] {
      try {
        body();
      } catch (...) {
        fail();
      }
      Lock lock(mutex_);
      member.ended = true;
      changed_.notify_all();
    });
  } catch (...) {
    members_.pop_back();  // nobody waits for what never began
    throw;
  }
}

bool Crew::ended_within(std::chrono::milliseconds duration) {
  const auto until = std::chrono::steady_clock::now() + duration;
  const auto ended = [&] {
    return std::all_of(members_.begin(), members_.end(), [](const Member& member) { return member.ended; });
  };
  Lock lock(mutex_);
  for (;;) {
    const auto left = until - std::chrono::steady_clock::now();
    if (ended() || left <= left.zero()) return ended();
    changed_.wait_for(mutex_, left);
  }
}

std::vector<const ThreadTimes*> Crew::running() {
  std::vector<const ThreadTimes*> running;
  Lock lock(mutex_);
  for (const Member& member : members_) {
    if (!member.ended) running.push_back(&member.times);
  }
  return running;
}

void Crew::join() {
  for (Member& member : members_) {
    if (member.thread.joinable()) member.thread.join();
  }
}

void Crew::join_or_exit(std::chrono::milliseconds patience) {
  if (failure_.any() && !ended_within(patience)) {
    NonblockingOutput last_words(STDERR_FILENO);  // a stalled terminal does not keep the process
    for (const ThreadTimes* times : running()) {
      last_words.write(
          fmt::format("draftsmith: {} does not end; the process ends without it\n", times->name));
    }
    try {
      rethrow();
    } catch (const std::exception& failure) {
      last_words.write(fmt::format("draftsmith: {}\n", failure_text(failure)));
    }
    std::_Exit(1);
  }
  join();
}

}  // namespace draftsmith
