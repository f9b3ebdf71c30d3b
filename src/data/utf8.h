// Well-formed UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF.
// Stateless; every function may be called from any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace draftsmith {

// Bytes before the first ill-formed one; text.size() when all of the text is well formed.
std::size_t valid_utf8_bytes(std::string_view text);

// Appends `bytes` to `text` with every maximal ill-formed part replaced by one U+FFFD, the practice that
// Unicode recommends: what is appended is always well formed.
void append_replacing_ill_formed(std::string& text, std::string_view bytes);

// Bytes at the end that begin a character whose other bytes are still missing: 0 to 3.
std::size_t incomplete_utf8_tail_bytes(std::string_view bytes);

// Bytes of the character that starts at `offset` of well-formed text.
std::size_t utf8_character_bytes(std::string_view text, std::size_t offset);

}  // namespace draftsmith
