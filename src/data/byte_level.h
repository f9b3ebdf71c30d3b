// The byte-level alphabet: tokenizer.json writes every byte of a token as one printable character. Printable
// Latin-1 bytes stand for themselves; the 68 others are U+0100, U+0101, … in byte order, so a space is "Ġ"
// and a newline "Ċ".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace draftsmith {

// The bytes that a token of the vocabulary stands for; nothing when a character is outside the alphabet.
std::optional<std::string> bytes_from_byte_level(std::string_view token);

// The character (UTF-8) that stands for a byte.
std::string byte_level_character(std::uint8_t byte);

}  // namespace draftsmith
