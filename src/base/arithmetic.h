// Integer arithmetic that says what it assumes.
#pragma once

#include <cstdint>

#include "base/error.h"

namespace draftsmith {

constexpr std::int64_t div_ceil(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }
constexpr std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return div_ceil(value, multiple) * multiple;
}

inline std::int64_t div_exact(std::int64_t value, std::int64_t by) {
  DRAFTSMITH_CHECK(by != 0 && value % by == 0, "the division must leave nothing");
  return value / by;
}

// A conversion between integer types that must keep the value.
template <typename To, typename From>
To narrow(From value) {
  const To result = static_cast<To>(value);
  DRAFTSMITH_CHECK(static_cast<From>(result) == value && ((result < To{}) == (value < From{})),
                   "the value must fit");
  return result;
}

}  // namespace draftsmith
