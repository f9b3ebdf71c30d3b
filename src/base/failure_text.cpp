#include "base/failure_text.h"

#include <cerrno>
#include <filesystem>
#include <new>

#include <fmt/core.h>
#include <unistd.h>

namespace draftsmith {
namespace {

namespace fs = std::filesystem;

// The file or folder that the system refuses: a folder that may not be entered hides what is in it.
fs::path refused_at(fs::path path) {
  while (path.has_parent_path() && path.parent_path() != path && ::access(path.c_str(), F_OK) != 0 &&
         errno == EACCES) {
    path = path.parent_path();
  }
  return path;
}

std::string text_of(const fs::filesystem_error& failure) {
  const std::string reason = failure.code().message();
  // Only the working folder is asked for without a path.
  if (failure.path1().empty())
    return fmt::format("the working folder cannot be found: {}; go to one that is there (cd)", reason);
  return fmt::format("{}: {}{}", refused_at(failure.path1()).string(), reason,
                     advice_on(failure.code().value()));
}

}  // namespace

std::string failure_text(const std::exception& failure) {
  if (const auto* files = dynamic_cast<const fs::filesystem_error*>(&failure)) return text_of(*files);
  if (dynamic_cast<const std::bad_alloc*>(&failure) != nullptr) {
    return "the memory of this machine, or a limit on it (ulimit -v, a control group), has run out; raise "
           "the limit, "
           "or take less: a lower train.context_tokens, train.blocks or devices.queue.slots, fewer threads, "
           "less data";
  }
  return failure.what();
}

std::string_view advice_on(int error_number) {
  switch (error_number) {
    case EACCES:
    case EPERM:
      return "; give this user the right to it, or name another path";
    case EROFS:
      return "; name a path on a file system that can be written";
    case ENOSPC:
    case EDQUOT:
      return "; make room there, or name a path on another disk";
    case EMFILE:
    case ENFILE:
      return "; raise the limit of open files (ulimit -n)";
    case EFBIG:
      return "; raise the limit of a file's size (ulimit -f)";
    case ENAMETOOLONG:
      return "; choose a shorter path";
    case ENOMEM:
      return "; raise the limit of memory (ulimit -v, a control group)";
    default:
      return "";
  }
}

}  // namespace draftsmith
