// A number beside what it counts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace draftsmith {

// "1 thread", "2 threads": for words whose plural is made by an s.
std::string counted(std::int64_t count, std::string_view of);

}  // namespace draftsmith
