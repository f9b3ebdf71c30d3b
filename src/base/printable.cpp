#include "base/printable.h"

#include <fmt/core.h>

namespace draftsmith {
namespace {

bool is_control(unsigned char c) { return c < 0x20 || c == 0x7f; }

std::string written_out(unsigned char c) {
  if (c == '\n') return "\\n";
  if (c == '\r') return "\\r";
  if (c == '\t') return "\\t";
  return fmt::format("\\u{:04x}", c);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  for (const char c : text) {
    if (c != '\n' && is_control(static_cast<unsigned char>(c))) {
      shown += written_out(static_cast<unsigned char>(c));
    } else {
      shown += c;
    }
  }
  return shown;
}

std::string printable_line(std::string_view text) {
  std::string shown;
  for (const char c : printable(text)) {
    if (c == '\n') {
      shown += written_out('\n');
    } else {
      shown += c;
    }
  }
  return shown;
}

}  // namespace draftsmith
