#include "base/counted.h"

#include <fmt/core.h>

namespace draftsmith {

std::string counted(std::int64_t count, std::string_view of) {
  return fmt::format("{} {}{}", count, of, count == 1 ? "" : "s");
}

}  // namespace draftsmith
