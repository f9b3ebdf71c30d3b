#include "data/byte_level.h"

#include <array>

namespace draftsmith {
namespace {

constexpr std::size_t kByteValues = 256;
constexpr std::size_t kShiftedBytes = 68;
constexpr std::uint32_t kFirstShifted = 0x100;

struct Alphabet {
  std::array<std::uint32_t, kByteValues> character;                 // by byte
  std::array<std::int16_t, kFirstShifted + kShiftedBytes> byte_of;  // by character; -1 is none
};

constexpr bool stands_for_itself(std::uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

constexpr Alphabet make_alphabet() {
  Alphabet alphabet{};
  for (auto& byte : alphabet.byte_of) byte = -1;
  std::uint32_t shifted = kFirstShifted;
  for (std::uint32_t byte = 0; byte < kByteValues; ++byte) {
    const std::uint32_t character = stands_for_itself(byte) ? byte : shifted++;
    alphabet.character[byte] = character;
    alphabet.byte_of[character] = static_cast<std::int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

std::optional<std::string> bytes_from_byte_level(std::string_view token) {
  std::string bytes;
  bytes.reserve(token.size());
  for (std::size_t i = 0; i < token.size(); ++i) {
    std::uint32_t character = static_cast<std::uint8_t>(token[i]);
    if (character >= 0x80) {  // the whole alphabet lies below U+0800: two bytes of UTF-8
      if ((character & 0xE0) != 0xC0 || i + 1 == token.size()) return std::nullopt;
      character = (character & 0x1F) << 6 | (static_cast<std::uint8_t>(token[++i]) & 0x3F);
    }
    if (character >= kAlphabet.byte_of.size() || kAlphabet.byte_of[character] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kAlphabet.byte_of[character]));
  }
  return bytes;
}

std::string byte_level_character(std::uint8_t byte) {
  const std::uint32_t character = kAlphabet.character[byte];
  if (character < 0x80) return {static_cast<char>(character)};
  return {static_cast<char>(0xC0 | character >> 6), static_cast<char>(0x80 | (character & 0x3F))};
}

}  // namespace draftsmith
