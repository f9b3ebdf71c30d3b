#include "data/utf8.h"

#include <cstdint>

namespace draftsmith {
namespace {

struct Sequence {
  std::size_t bytes;  // of the character, or of the maximal ill-formed part
  bool well_formed;
  bool cut_short;  // ill-formed only because the text ends
};

// What a lead byte asks for: how many bytes follow and the range of the first of them.
struct Lead {
  std::size_t following;
  std::uint8_t second_low;
  std::uint8_t second_high;
};

Lead lead_of(std::uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {1, 0x80, 0xBF};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};
  if (byte == 0xED) return {2, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {2, 0x80, 0xBF};
  if (byte == 0xF0) return {3, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {3, 0x80, 0xBF};
  if (byte == 0xF4) return {3, 0x80, 0x8F};
  return {0, 0, 0};
}

Sequence sequence_at(std::string_view text, std::size_t offset) {
  const auto byte = [&](std::size_t at) { return static_cast<std::uint8_t>(text[at]); };
  if (byte(offset) < 0x80) return {1, true, false};
  const Lead lead = lead_of(byte(offset));
  if (lead.following == 0) return {1, false, false};
  for (std::size_t i = 1; i <= lead.following; ++i) {
    if (offset + i == text.size()) return {i, false, true};
    const std::uint8_t low = i == 1 ? lead.second_low : 0x80;
    const std::uint8_t high = i == 1 ? lead.second_high : 0xBF;
    if (byte(offset + i) < low || byte(offset + i) > high) return {i, false, false};
  }
  return {lead.following + 1, true, false};
}

}  // namespace

std::size_t valid_utf8_bytes(std::string_view text) {
  std::size_t offset = 0;
  while (offset < text.size()) {
    const Sequence sequence = sequence_at(text, offset);
    if (!sequence.well_formed) break;
    offset += sequence.bytes;
  }
  return offset;
}

void append_replacing_ill_formed(std::string& text, std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t valid = valid_utf8_bytes(bytes);
    text.append(bytes.substr(0, valid));
    bytes.remove_prefix(valid);
    if (bytes.empty()) return;
    text.append("\xEF\xBF\xBD");
    bytes.remove_prefix(sequence_at(bytes, 0).bytes);
  }
}

std::size_t incomplete_utf8_tail_bytes(std::string_view bytes) {
  const std::size_t longest = bytes.size() < 3 ? bytes.size() : 3;
  for (std::size_t tail = longest; tail > 0; --tail) {
    const Sequence sequence = sequence_at(bytes, bytes.size() - tail);
    if (sequence.cut_short && sequence.bytes == tail) return tail;
  }
  return 0;
}

std::size_t utf8_character_bytes(std::string_view text, std::size_t offset) {
  return sequence_at(text, offset).bytes;
}

}  // namespace draftsmith
