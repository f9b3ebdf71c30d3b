#include "app/stop_signals.h"

#include <csignal>

#include <unistd.h>

#include "base/error.h"

namespace draftsmith {
namespace {

std::atomic<int> g_received{0};  // a signal handler is given nothing else
std::atomic<const char*> g_doing{""};
std::atomic<NonblockingOutput*> g_output{nullptr};
static_assert(std::atomic<int>::is_always_lock_free);

// Only what a signal handler may do.
void receive(int signal) {
  int none = 0;
  if (!g_received.compare_exchange_strong(none, signal)) ::_exit(128 + signal);
  for (const char* text : {"\ndraftsmith: ", g_doing.load(), "; once more to stop at once\n"}) {
    g_output.load()->write(text);
  }
}

void handle(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before = {};
    DRAFTSMITH_CHECK(::sigaction(signal, nullptr, &before) == 0, "these signals can be handled");
    if (before.sa_handler == SIG_IGN) continue;
    DRAFTSMITH_CHECK(::sigaction(signal, &action, nullptr) == 0, "these signals can be handled");
  }
}

}  // namespace

StopSignals::StopSignals(const char* doing) : output_(STDERR_FILENO) {
  g_received = 0;
  g_doing = doing;
  g_output = &output_;
  handle(receive);
}

StopSignals::~StopSignals() { handle(SIG_DFL); }

std::atomic<int>& StopSignals::received() const { return g_received; }

}  // namespace draftsmith
