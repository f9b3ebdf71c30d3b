#include "base/error.h"

#include <cstdio>
#include <cstdlib>

namespace draftsmith {

void check_failed(const char* condition, const char* because, const char* file, int line) {
  std::fprintf(stderr, "draftsmith: internal check failed: %s\n  because %s\n  at %s:%d\n", condition,
               because, file, line);
  std::fflush(stderr);
  std::abort();
}

}  // namespace draftsmith
