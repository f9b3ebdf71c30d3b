// CRC-32C (Castagnoli, as in iSCSI): finds damage by disks and copies; it is no protection against intent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace draftsmith {

// The checksum of all bytes so far, when `previous` is that of the ones before `bytes`.
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t previous = 0);

}  // namespace draftsmith
