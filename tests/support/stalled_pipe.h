// A pipe that nobody reads and that takes no more, as a terminal after Ctrl-S.
#pragma once

#include <algorithm>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"

namespace draftsmith {

class StalledPipe {
 public:
  StalledPipe() {
    DRAFTSMITH_CHECK(::pipe2(ends_, O_CLOEXEC) == 0, "tests need a pipe");
    bytes_ = ::fcntl(ends_[1], F_SETPIPE_SZ, 4096);
    const std::string filling(static_cast<std::size_t>(bytes_), '#');
    DRAFTSMITH_CHECK(::write(ends_[1], filling.data(), filling.size()) == bytes_, "a pipe holds its size");
  }
  ~StalledPipe() {
    close_reader();
    ::close(ends_[1]);
  }
  StalledPipe(const StalledPipe&) = delete;
  StalledPipe& operator=(const StalledPipe&) = delete;

  int descriptor() const { return ends_[1]; }
  // Everything that is in it, without the filling; it takes text again afterwards.
  std::string read() {
    std::string text(static_cast<std::size_t>(bytes_), '\0');
    const ssize_t count = ::read(ends_[0], text.data(), text.size());
    text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    return text.substr(std::min(text.size(), text.find_first_not_of('#')));
  }
  void close_reader() {
    if (ends_[0] >= 0) ::close(ends_[0]);
    ends_[0] = -1;
  }

 private:
  int ends_[2] = {-1, -1};
  int bytes_ = 0;
};

}  // namespace draftsmith
