// Text from outside as a terminal may have it: control characters are written as JSON writes them, \n or \u001b.
#pragma once

#include <string>
#include <string_view>

namespace draftsmith {

// Line breaks stay.
std::string printable(std::string_view text);
// Line breaks too are written out.
std::string printable_line(std::string_view text);

}  // namespace draftsmith
