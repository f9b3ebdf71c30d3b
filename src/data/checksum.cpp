#include "data/checksum.h"

#include <algorithm>

#include <isa-l/crc.h>

namespace draftsmith {

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t previous) {
  constexpr std::size_t kPiece_bytes = std::size_t{1} << 30;  // the library counts in int
  std::uint32_t state = ~previous;
  while (!bytes.empty()) {
    const std::span<const std::byte> piece = bytes.first(std::min(bytes.size(), kPiece_bytes));
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(piece.data()));  // only read
    state = crc32_iscsi(data, static_cast<int>(piece.size()), state);
    bytes = bytes.subspan(piece.size());
  }
  return ~state;
}

}  // namespace draftsmith
