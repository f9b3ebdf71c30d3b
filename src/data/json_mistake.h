// What an Error says of text that is not JSON.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace draftsmith {

// The parser's words without its own tag and without the text that it quotes, which may be megabytes and no UTF-8:
// "line 2, column 7: syntax error while parsing value - unexpected '}'". `byte`, from 1, is where it stopped in a text of
// `size`: past the end, the words say that it seems to be cut.
std::string json_mistake(std::string_view words, std::size_t byte = 0, std::size_t size = 0);

}  // namespace draftsmith
