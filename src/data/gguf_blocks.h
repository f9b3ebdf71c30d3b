// How GGUF stores the values of a tensor, and back to float. The types read here:
//   f32, f16, bf16   one number a value
//   q8_0             blocks of 32: half d, int8 q[32]                 value = d q
//   q4_0, q5_0       blocks of 32: half d, 4 or 5 bits a value        value = d (q - 8), d (q - 16)
//   q4_1, q5_1       blocks of 32: half d, half m, 4 or 5 bits        value = d q + m
// A block's byte j holds the low four bits of values j (low half) and j + 16 (high half); the fifth bits, of
// q5, stand before them as 32 bits, that of value j at place j. d q is exact in float; d q + m is rounded
// once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace draftsmith {

enum class GgufType { f32, f16, q4_0, q4_1, q5_0, q5_1, q8_0, bf16 };

struct GgufTypeInfo {
  GgufType type;
  std::uint32_t number;  // in the file
  std::string_view name;
  std::int64_t block_values;
  std::int64_t block_bytes;
};

const GgufTypeInfo& gguf_type_info(GgufType type);
std::optional<GgufType> find_gguf_type(std::uint32_t number);

// For errors: the name of any number, and the names of all types that are read.
std::string describe_gguf_type(std::uint32_t number);
std::string gguf_type_names();

// `values` are whole blocks, and `bytes` exactly theirs.
void dequantise(GgufType type, std::span<const std::byte> bytes, std::span<float> values);

}  // namespace draftsmith
