// The first failure of any thread: the one that a person needs to read. What fails after it is a consequence.
#pragma once

#include <exception>

#include "base/mutex.h"

namespace draftsmith {

class FirstFailure {
 public:
  // Called in a catch clause.
  void keep_current() {
    Lock lock(mutex_);
    if (!first_) first_ = std::current_exception();
  }

  bool any() {
    Lock lock(mutex_);
    return first_ != nullptr;
  }

  // Throws what was kept, if anything.
  void rethrow() {
    Lock lock(mutex_);
    if (first_) std::rethrow_exception(first_);
  }

 private:
  // Shared.
  Mutex mutex_;
  std::exception_ptr first_ GUARDED_BY(mutex_);
};

}  // namespace draftsmith
