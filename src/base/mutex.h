// A mutex whose use the compiler checks (clang -Wthread-safety), and a condition that waits with it.
#pragma once

#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define DRAFTSMITH_ANNOTATE(x) __attribute__((x))
#else
#define DRAFTSMITH_ANNOTATE(x)
#endif
#define GUARDED_BY(mutex) DRAFTSMITH_ANNOTATE(guarded_by(mutex))
#define REQUIRES(mutex) DRAFTSMITH_ANNOTATE(requires_capability(mutex))

namespace draftsmith {

class DRAFTSMITH_ANNOTATE(capability("mutex")) Mutex {
 public:
  void lock() DRAFTSMITH_ANNOTATE(acquire_capability()) { mutex_.lock(); }
  void unlock() DRAFTSMITH_ANNOTATE(release_capability()) { mutex_.unlock(); }

 private:
  friend class Condition;
  std::mutex mutex_;
};

class DRAFTSMITH_ANNOTATE(scoped_lockable) Lock {
 public:
  explicit Lock(Mutex& mutex) DRAFTSMITH_ANNOTATE(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }
  ~Lock() DRAFTSMITH_ANNOTATE(release_capability()) { mutex_.unlock(); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  Mutex& mutex_;
};

// Waits with a held Mutex; takes no heap. Callers loop on their predicate.
class Condition {
 public:
  void wait(Mutex& mutex) REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  template <typename Duration>
  void wait_for(Mutex& mutex, Duration duration) REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait_for(lock, duration);
    lock.release();
  }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace draftsmith
