// What measuring a product needs on the device: operands that are not zeros, and whether two runs gave the
// same bits.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "tensor/tensor.h"

namespace draftsmith::cuda {

// Fills with numbers about normally distributed with deviation 1: zeros run faster than real data.
void fill_random(const Stream& stream, DType type, void* data, std::int64_t count, std::uint32_t seed);

// digest[0] = a digest of the bytes; a multiple of 4 of them. Equal bytes give equal digests.
void digest_bytes(const Stream& stream, const void* data, std::int64_t bytes, std::uint64_t* digest);

}  // namespace draftsmith::cuda
