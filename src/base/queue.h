// A bounded queue between threads. It ends by close(): what was pushed before is still popped, then pop()
// says "end" for ever (end of stream is sticky). Capacity is fixed at construction; push and pop take no
// heap.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"

namespace draftsmith {

template <typename T>
class Queue {
 public:
  explicit Queue(std::size_t capacity) : ring_(capacity) {
    DRAFTSMITH_CHECK(capacity > 0, "a queue needs room");
  }

  // Blocks while full. False when the queue is closed; the value is then dropped.
  bool push(T value) {
    Lock lock(mutex_);
    while (count_ == ring_.size() && !closed_) changed_.wait(mutex_);
    if (closed_) return false;
    ring_[(first_ + count_++) % ring_.size()] = std::move(value);
    changed_.notify_all();
    return true;
  }

  // Blocks while empty and open. Nothing when closed and drained.
  std::optional<T> pop() {
    Lock lock(mutex_);
    while (count_ == 0 && !closed_) changed_.wait(mutex_);
    return take();
  }

  // Never blocks.
  std::optional<T> try_pop() {
    Lock lock(mutex_);
    return take();
  }

  // Blocks for at most `duration`; nothing when it passed, or at the end.
  template <typename Duration>
  std::optional<T> pop_for(Duration duration) {
    Lock lock(mutex_);
    if (count_ == 0 && !closed_) changed_.wait_for(mutex_, duration);
    return take();
  }

  void close() {
    Lock lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

  bool ended() {
    Lock lock(mutex_);
    return closed_ && count_ == 0;
  }

  std::size_t size() {
    Lock lock(mutex_);
    return count_;
  }

 private:
  std::optional<T> take() REQUIRES(mutex_) {
    if (count_ == 0) return std::nullopt;
    std::optional<T> value(std::move(ring_[first_]));
    first_ = (first_ + 1) % ring_.size();
    --count_;
    changed_.notify_all();
    return value;
  }

  // Shared.
  Mutex mutex_;
  Condition changed_;
  std::vector<T> ring_ GUARDED_BY(mutex_);
  std::size_t first_ GUARDED_BY(mutex_) = 0;
  std::size_t count_ GUARDED_BY(mutex_) = 0;
  bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace draftsmith
