#include "base/thread.h"

#include <system_error>
#include <utility>

#include <fmt/core.h>

#include "base/error.h"

namespace draftsmith {

std::jthread start_thread(std::string_view name, std::function<void()> body) {
  try {
    return std::jthread(std::move(body));
  } catch (const std::system_error& failure) {
    throw Error(fmt::format(
        "the thread '{}' cannot be started: {}; raise the limit of processes (ulimit -u, or pids.max of "
        "the control group) or that of memory (ulimit -v)",
        name, failure.code().message()));
  }
}

}  // namespace draftsmith
