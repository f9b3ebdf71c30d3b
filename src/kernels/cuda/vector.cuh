// Wide accesses for the CUDA kernels: `count` neighbouring elements as floats, 16 bytes of storage at a time
// where the kernel is instantiated wide. A launch is wide when every row that it touches begins on 16 bytes
// and has a whole number of vectors; the launchers decide with is_wide().
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace draftsmith::cuda {

template <typename T>
inline constexpr int kWide = 16 / static_cast<int>(sizeof(T));

template <typename T>
bool is_wide(const T* data, std::int64_t stride, std::int64_t columns) {
  constexpr std::int64_t kVector = kWide<T>;
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && stride % kVector == 0 && columns % kVector == 0;
}
template <typename T>
bool is_wide(const Matrix<T>& matrix) {
  return is_wide(matrix.data, matrix.stride, matrix.columns);
}
template <typename T>
bool is_wide(const Vector<T>& vector) {
  return is_wide(vector.data, 0, vector.size);
}

// Round to nearest even, two at once; the first in the low half.
__device__ inline std::uint32_t round_pair(float low, float high) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
__device__ inline float low_half(std::uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ inline float high_half(std::uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }

__device__ inline float to_float(float value) { return value; }
__device__ inline float to_float(bf16 value) {
  return __uint_as_float(static_cast<std::uint32_t>(value.bits) << 16);
}
template <typename T>
__device__ T to_stored(float value);
template <>
__device__ inline float to_stored<float>(float value) {
  return value;
}
template <>
__device__ inline bf16 to_stored<bf16>(float value) {
  return bf16::from_bits(static_cast<std::uint16_t>(round_pair(value, 0.0f)));
}

// What storing as T and loading again gives.
template <typename T>
__device__ float rounded(float value) {
  return to_float(to_stored<T>(value));
}

template <int count>
__device__ void load(const float* from, float (&values)[count]) {
  if constexpr (count % 4 == 0) {
#pragma unroll
    for (int i = 0; i < count; i += 4) {
      const float4 four = *reinterpret_cast<const float4*>(from + i);
      values[i] = four.x;
      values[i + 1] = four.y;
      values[i + 2] = four.z;
      values[i + 3] = four.w;
    }
  } else {
#pragma unroll
    for (int i = 0; i < count; ++i) values[i] = from[i];
  }
}

template <int count>
__device__ void load(const bf16* from, float (&values)[count]) {
  if constexpr (count % 8 == 0) {
#pragma unroll
    for (int i = 0; i < count; i += 8) {
      const uint4 pairs = *reinterpret_cast<const uint4*>(from + i);
      const std::uint32_t words[4] = {pairs.x, pairs.y, pairs.z, pairs.w};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        values[i + 2 * j] = low_half(words[j]);
        values[i + 2 * j + 1] = high_half(words[j]);
      }
    }
  } else if constexpr (count == 4) {
    const uint2 pairs = *reinterpret_cast<const uint2*>(from);
    values[0] = low_half(pairs.x);
    values[1] = high_half(pairs.x);
    values[2] = low_half(pairs.y);
    values[3] = high_half(pairs.y);
  } else {
#pragma unroll
    for (int i = 0; i < count; ++i) values[i] = to_float(from[i]);
  }
}

template <int count>
__device__ void store(float* to, const float (&values)[count]) {
  if constexpr (count % 4 == 0) {
#pragma unroll
    for (int i = 0; i < count; i += 4) {
      *reinterpret_cast<float4*>(to + i) =
          make_float4(values[i], values[i + 1], values[i + 2], values[i + 3]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < count; ++i) to[i] = values[i];
  }
}

template <int count>
__device__ void store(bf16* to, const float (&values)[count]) {
  if constexpr (count == 8) {
    *reinterpret_cast<uint4*>(to) =
        make_uint4(round_pair(values[0], values[1]), round_pair(values[2], values[3]),
                   round_pair(values[4], values[5]), round_pair(values[6], values[7]));
  } else if constexpr (count == 4) {
    *reinterpret_cast<uint2*>(to) =
        make_uint2(round_pair(values[0], values[1]), round_pair(values[2], values[3]));
  } else {
#pragma unroll
    for (int i = 0; i < count; ++i) to[i] = to_stored<bf16>(values[i]);
  }
}

}  // namespace draftsmith::cuda
