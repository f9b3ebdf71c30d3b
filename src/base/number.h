// Storage types narrower than float, with round-to-nearest-even, and what one rounding may cost.
#pragma once

#include <bit>
#include <cstdint>

namespace draftsmith {

// The upper half of a float: 8 exponent bits, 8 significant bits.
struct bf16 {
  std::uint16_t bits;

  bf16() = default;
  constexpr explicit bf16(float value) : bits(round(value)) {}
  constexpr operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

  static constexpr bf16 from_bits(std::uint16_t bits) {
    bf16 out{};
    out.bits = bits;
    return out;
  }

 private:
  static constexpr std::uint16_t round(float value) {
    const std::uint32_t word = std::bit_cast<std::uint32_t>(value);
    if ((word & 0x7fffffffu) > 0x7f800000u)
      return static_cast<std::uint16_t>((word >> 16) | 0x40u);  // NaN stays NaN
    return static_cast<std::uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
  }
};
static_assert(sizeof(bf16) == 2);

// IEEE half precision, read from files only.
constexpr float float_from_f16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0x1fu) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (fraction << 13));
  const float magnitude = static_cast<float>(fraction) * 0x1p-24f;  // subnormals are exact in float
  return sign ? -magnitude : magnitude;
}

// Half the distance from 1 to the next number: the largest relative error of one rounding.
template <typename T>
inline constexpr double kUnitRoundoff = 0;
template <>
inline constexpr double kUnitRoundoff<float> = 0x1p-24;
template <>
inline constexpr double kUnitRoundoff<bf16> = 0x1p-8;
template <>
inline constexpr double kUnitRoundoff<double> = 0x1p-53;

}  // namespace draftsmith
