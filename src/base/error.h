// Two kinds of failure. Error is the world's fault (a file, an option, a driver): it says what was expected,
// what was found and what to try. DRAFTSMITH_CHECK is our fault: corrupted state; it stays on in release and
// aborts.
#pragma once

#include <stdexcept>
#include <string>

namespace draftsmith {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Prints the condition, the reason and the place to stderr, then aborts.
[[noreturn]] void check_failed(const char* condition, const char* because, const char* file, int line);

}  // namespace draftsmith

#define DRAFTSMITH_CHECK(condition, because) \
  ((condition) ? static_cast<void>(0) : ::draftsmith::check_failed(#condition, because, __FILE__, __LINE__))
