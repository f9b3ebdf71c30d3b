#include "base/terminal.h"

#include <cstdlib>
#include <string_view>

#include <unistd.h>

namespace draftsmith {
namespace {

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

bool follows_escapes(int descriptor) { return ::isatty(descriptor) != 0 && variable("TERM") != "dumb"; }

bool wants_colours(int descriptor) { return follows_escapes(descriptor) && variable("NO_COLOR").empty(); }

}  // namespace draftsmith
