// The names most like a given one, for errors that say "did you mean".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace draftsmith {

// The number of single-character insertions, removals and replacements between two texts.
std::size_t edit_distance(std::string_view a, std::string_view b);

// Whether a word of `length` characters at this distance from another is likely to be a slip of the other.
bool is_near(std::size_t distance, std::size_t length);

// At most `count` of `candidates`, nearest first; equally near ones keep their order.
std::vector<std::string> nearest_names(std::string_view name, const std::vector<std::string>& candidates,
                                       std::size_t count);

// Texts joined by `separator`.
std::string join(const std::vector<std::string>& texts, std::string_view separator);

}  // namespace draftsmith
