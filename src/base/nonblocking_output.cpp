#include "base/nonblocking_output.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <string>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

namespace draftsmith {
namespace {

// A pipe that poll() calls writable takes PIPE_BUF bytes at once. A terminal may have room for less, and a write would wait
// for the rest: only a descriptor of our own that does not block helps there. -1 where there can be none (a terminal of
// another user, no /proc, a socket): then poll() before each write has to do. The place in an ordinary file belongs to the
// descriptor, and such a file does not stall.
int open_without_blocking(int descriptor) {
  struct stat file = {};
  if (::fstat(descriptor, &file) != 0 || !(S_ISFIFO(file.st_mode) || S_ISCHR(file.st_mode))) return -1;
  const std::string name = "/proc/self/fd/" + std::to_string(descriptor);
  return ::open(name.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

bool writable(int descriptor, int patience_ms) {
  pollfd asked{.fd = descriptor, .events = POLLOUT, .revents = 0};
  return ::poll(&asked, 1, patience_ms) > 0;  // an error is writable too: write() says which it is
}

}  // namespace

NonblockingOutput::NonblockingOutput(int descriptor)
    : descriptor_(descriptor), opened_(open_without_blocking(descriptor)) {}

NonblockingOutput::~NonblockingOutput() {
  if (opened_ >= 0) ::close(opened_);
}

NonblockingOutput::NonblockingOutput(NonblockingOutput&& other) noexcept
    : descriptor_(other.descriptor_), opened_(std::exchange(other.opened_, -1)), gone_(other.gone_) {}

std::size_t NonblockingOutput::write(std::string_view text) {
  const int errno_before = errno;
  const int descriptor = opened_ >= 0 ? opened_ : descriptor_;
  std::size_t taken = 0;
  while (!gone_ && taken < text.size() && (opened_ >= 0 || writable(descriptor_, 0))) {
    const ssize_t written =
        ::write(descriptor, text.data() + taken, std::min<std::size_t>(text.size() - taken, PIPE_BUF));
    if (written >= 0) {
      taken += static_cast<std::size_t>(written);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      gone_ = true;
    }
  }
  errno = errno_before;
  return gone_ ? text.size() : taken;
}

bool NonblockingOutput::wait(std::chrono::milliseconds patience) const {
  return !gone_ && writable(opened_ >= 0 ? opened_ : descriptor_, static_cast<int>(patience.count()));
}

}  // namespace draftsmith
