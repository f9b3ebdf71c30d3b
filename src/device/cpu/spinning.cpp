#include "device/cpu/spinning.h"

#include <cstdlib>

#include <errno.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace draftsmith {

void limit_spinning(char** arguments) {
  constexpr const char* kSpins = "3000";
  ::prctl(PR_SET_NAME, program_invocation_short_name);  // what starts itself below is called "exe"
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  ::setenv("GOMP_SPINCOUNT", kSpins, 1);
  ::execv("/proc/self/exe", arguments);  // comes back only where it fails: then all is as it would be without
}

}  // namespace draftsmith
