#include "device/cpu/spinning.h"

#include <cstdlib>

#include <unistd.h>

namespace draftsmith {

void limit_spinning(char** arguments) {
  constexpr const char* kSpins = "3000";
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  ::setenv("GOMP_SPINCOUNT", kSpins, 1);
  ::execv("/proc/self/exe", arguments);  // comes back only where it fails: then all is as it would be without
}

}  // namespace draftsmith
