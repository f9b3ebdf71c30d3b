// Sixteen floats at a time, for the CPU kernels. Lanes are the compiler's own vectors: one AVX-512 register,
// or several narrower ones on CPUs without it, with the same bits either way. Rows are walked with for_lanes,
// so every sum over a row has one order, whatever the row's address.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>

#include "base/number.h"

namespace draftsmith::cpu {

inline constexpr std::int64_t kLanes = 16;
typedef float Lanes __attribute__((vector_size(64)));
typedef std::int32_t IntLanes __attribute__((vector_size(64)));
typedef std::uint32_t WordLanes __attribute__((vector_size(64)));
typedef std::uint16_t HalfLanes __attribute__((vector_size(32)));
typedef std::uint16_t HalfPairs __attribute__((vector_size(64)));

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

inline Lanes broadcast(float v) { return Lanes{v, v, v, v, v, v, v, v, v, v, v, v, v, v, v, v}; }
inline IntLanes lane_index() { return IntLanes{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}; }

inline Lanes load(const float* from) {
  Lanes lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}
// A bf16 is the upper half of a float: the lower halves come from zeros.
inline Lanes widen(HalfLanes halves) {
  return reinterpret_cast<Lanes>(__builtin_shufflevector(HalfLanes{}, halves, 0, 16, 1, 17, 2, 18, 3, 19, 4,
                                                         20, 5, 21, 6, 22, 7, 23, 8, 24, 9, 25, 10, 26, 11,
                                                         27, 12, 28, 13, 29, 14, 30, 15, 31));
}
inline Lanes load(const bf16* from) {
  HalfLanes halves;
  std::memcpy(&halves, from, sizeof halves);
  return widen(halves);
}

// Rounds to the nearest bf16, ties to even; NaN stays NaN.
inline HalfLanes narrow_lanes(Lanes lanes) {
  const WordLanes words = reinterpret_cast<WordLanes>(lanes);
  const WordLanes rounded = words + 0x7fffu + ((words >> 16) & 1u);
  const WordLanes chosen = (words & 0x7fffffffu) > 0x7f800000u ? words | 0x400000u : rounded;
  const HalfPairs halves = reinterpret_cast<HalfPairs>(chosen);
  return __builtin_shufflevector(halves, halves, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
}
inline void store(float* to, Lanes lanes) { std::memcpy(to, &lanes, sizeof lanes); }
inline void store(bf16* to, Lanes lanes) {
  const HalfLanes halves = narrow_lanes(lanes);
  std::memcpy(to, &halves, sizeof halves);
}

// The first `count` lanes, the others `fill`.
template <typename T>
Lanes load_some(const T* from, std::int64_t count, float fill = 0) {
  float values[kLanes];
  for (std::int64_t lane = 0; lane < kLanes; ++lane) {
    values[lane] = lane < count ? static_cast<float>(from[lane]) : fill;
  }
  return load(values);
}
template <typename T>
void store_some(T* to, Lanes lanes, std::int64_t count) {
  T values[kLanes];
  store(values, lanes);
  std::memcpy(to, values, static_cast<std::size_t>(count) * sizeof(T));
}

// What storing as T and loading again gives.
template <typename T>
Lanes rounded(Lanes lanes);
template <>
inline Lanes rounded<float>(Lanes lanes) {
  return lanes;
}
template <>
inline Lanes rounded<bf16>(Lanes lanes) {
  return widen(narrow_lanes(lanes));
}

// A place in a row: sixteen whole columns, or the few that end it. Loads beyond the end give the fill.
struct WholeLanes {
  std::int64_t column;
  WholeLanes after(std::int64_t vectors) const { return {column + vectors * kLanes}; }
  template <typename T>
  Lanes load(const T* row, float = 0) const {
    return cpu::load(row + column);
  }
  template <typename T>
  void store(T* row, Lanes lanes) const {
    cpu::store(row + column, lanes);
  }
};
struct LastLanes {
  std::int64_t column;
  std::int64_t count;
  LastLanes after(std::int64_t) const { return *this; }  // nothing follows
  template <typename T>
  Lanes load(const T* row, float fill = 0) const {
    return load_some(row + column, count, fill);
  }
  template <typename T>
  void store(T* row, Lanes lanes) const {
    store_some(row + column, lanes, count);
  }
};

// body(place) for each sixteen columns of [begin, end), then for the rest.
template <typename Body>
void for_lanes(std::int64_t begin, std::int64_t end, const Body& body) {
  std::int64_t column = begin;
  for (; column + kLanes <= end; column += kLanes) body(WholeLanes{column});
  if (column < end) body(LastLanes{column, end - column});
}

inline Lanes max(Lanes a, Lanes b) { return a > b ? a : b; }  // b where either is NaN

// Halves onto halves: one order, whatever the vector width.
inline Lanes fold(Lanes x, int step) {
  switch (step) {
    case 8:
      return __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
    case 4:
      return __builtin_shufflevector(x, x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
    case 2:
      return __builtin_shufflevector(x, x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    default:
      return __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
  }
}
inline float sum_of(Lanes x) {
  x += fold(x, 8);
  x += fold(x, 4);
  x += fold(x, 2);
  x += fold(x, 1);
  return x[0];
}
inline float max_of(Lanes x) {
  x = max(x, fold(x, 8));
  x = max(x, fold(x, 4));
  x = max(x, fold(x, 2));
  x = max(x, fold(x, 1));
  return x[0];
}

// e^x within 2 ulp: x = n ln 2 + r with |r| <= ln 2 / 2, a polynomial in r (coefficients of Cephes' expf),
// and 2^n in two factors so that neither overflows. -inf gives 0, large x infinity, NaN stays NaN.
inline Lanes exp(Lanes x) {
  constexpr float kLog2E = 1.44269504f;
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;  // the high part has few bits
  constexpr float kRound = 0x1.8p23f;  // adding it leaves the nearest integer in the low bits
  x = x < -104.0f ? broadcast(-104.0f) : x;
  x = x > 89.0f ? broadcast(89.0f) : x;
  const Lanes shifted = x * kLog2E + kRound;
  const Lanes n = shifted - kRound;
  const Lanes r = (x - n * kLn2High) - n * kLn2Low;
  Lanes p = broadcast(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const IntLanes exponent =
      reinterpret_cast<IntLanes>(shifted) - reinterpret_cast<IntLanes>(broadcast(kRound));
  const IntLanes half = exponent >> 1;
  const IntLanes first = (half + 127) << 23;
  const IntLanes second = (exponent - half + 127) << 23;
  return p * reinterpret_cast<Lanes>(first) * reinterpret_cast<Lanes>(second);
}

}  // namespace draftsmith::cpu
