// Products of small float tiles that lie on the stack: the inner loops of attention.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/vector_math.h"

namespace draftsmith::cpu {

// c[r][x] = (accumulate ? c[r][x] : 0) + sum over d of a(r, d) * b[d][x], with a(r, d) = a[r * a_row + d *
// a_depth], so either operand order of a needs no copy. Each entry is one chain of fused multiply-adds in
// order of d, whatever the number of rows and vectors beside it. b may lie in storage: bf16 is widened as it is read.
template <typename B>
struct TileProduct {
  const float* a;
  std::int64_t a_row, a_depth;
  const B* b;
  std::int64_t b_stride;
  float* c;
  std::int64_t c_stride;
  std::int64_t rows, vectors, depth;  // the width is vectors * kLanes
  bool accumulate;
};

template <int rows, int vectors, typename B>
void multiply_registers(const TileProduct<B>& product, std::int64_t row, std::int64_t vector) {
  const float* a = product.a + row * product.a_row;
  const B* b = product.b + vector * kLanes;
  float* c = product.c + row * product.c_stride + vector * kLanes;
  Lanes sums[rows][vectors];
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) {
      sums[r][v] = product.accumulate ? load(c + r * product.c_stride + v * kLanes) : Lanes{};
    }
  }
  for (std::int64_t d = 0; d < product.depth; ++d) {
    Lanes right[vectors];
    for (int v = 0; v < vectors; ++v) right[v] = load(b + d * product.b_stride + v * kLanes);
    for (int r = 0; r < rows; ++r) {
      const Lanes left = broadcast(a[r * product.a_row + d * product.a_depth]);
      for (int v = 0; v < vectors; ++v) sums[r][v] += left * right[v];
    }
  }
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) store(c + r * product.c_stride + v * kLanes, sums[r][v]);
  }
}

template <int vectors, typename B>
void multiply_rows(const TileProduct<B>& product, std::int64_t vector) {
  constexpr std::int64_t kRowsAtOnce = 4;  // with four vectors: sixteen accumulators of the 32 registers
  std::int64_t row = 0;
  for (; row + kRowsAtOnce <= product.rows; row += kRowsAtOnce) {
    multiply_registers<kRowsAtOnce, vectors>(product, row, vector);
  }
  switch (product.rows - row) {
    case 3:
      return multiply_registers<3, vectors>(product, row, vector);
    case 2:
      return multiply_registers<2, vectors>(product, row, vector);
    case 1:
      return multiply_registers<1, vectors>(product, row, vector);
    default:
      return;
  }
}

template <typename B>
void multiply(const TileProduct<B>& product) {
  std::int64_t vector = 0;
  for (; vector + 4 <= product.vectors; vector += 4) multiply_rows<4>(product, vector);
  switch (product.vectors - vector) {
    case 3:
      return multiply_rows<3>(product, vector);
    case 2:
      return multiply_rows<2>(product, vector);
    case 1:
      return multiply_rows<1>(product, vector);
    default:
      return;
  }
}

// Sixteen rows of sixteen become columns.
inline void transpose(Lanes (&x)[kLanes]) {
  Lanes y[kLanes];
  for (int i = 0; i < kLanes; i += 2) {
    y[i] = __builtin_shufflevector(x[i], x[i + 1], 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30);
    y[i + 1] =
        __builtin_shufflevector(x[i], x[i + 1], 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31);
  }
  for (int i = 0; i < kLanes; i += 4) {
    for (int j = 0; j < 2; ++j) {
      const Lanes a = y[i + j], b = y[i + j + 2];
      x[i + j] = __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
      x[i + j + 2] =
          __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
    }
  }
  for (int i = 0; i < kLanes; i += 8) {
    for (int j = 0; j < 4; ++j) {
      const Lanes a = x[i + j], b = x[i + j + 4];
      y[i + j] = __builtin_shufflevector(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27);
      y[i + j + 4] =
          __builtin_shufflevector(a, b, 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
    }
  }
  for (int j = 0; j < 8; ++j) {
    const Lanes a = y[j], b = y[j + 8];
    x[j] = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
    x[j + 8] = __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
  }
}

}  // namespace draftsmith::cpu
