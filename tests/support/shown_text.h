// An unnamed file to show progress on, and what was written to it.
#pragma once

#include <string>

#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/error.h"

namespace draftsmith {

class ShownText {
 public:
  ShownText() : descriptor_(::memfd_create("shown", MFD_CLOEXEC)) {
    DRAFTSMITH_CHECK(descriptor_ >= 0, "tests need a file in memory");
  }
  ~ShownText() { ::close(descriptor_); }
  ShownText(const ShownText&) = delete;
  ShownText& operator=(const ShownText&) = delete;

  int descriptor() const { return descriptor_; }
  std::string str() const {
    std::string text(static_cast<std::size_t>(::lseek(descriptor_, 0, SEEK_CUR)), '\0');
    const ssize_t count = ::pread(descriptor_, text.data(), text.size(), 0);
    DRAFTSMITH_CHECK(count == static_cast<ssize_t>(text.size()), "what was written can be read");
    return text;
  }
  // What was written since the last call.
  std::string take() {
    const std::string text = str();
    const std::string more = text.substr(taken_);
    taken_ = text.size();
    return more;
  }

 private:
  int descriptor_;
  std::size_t taken_ = 0;
};

}  // namespace draftsmith
