// Moving rows: copies between strided matrices and lookups by index.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/tensor.h"

namespace draftsmith {

// output = input, bit for bit.
template <typename T>
struct CopyRows {
  Matrix<const T> input;  // [rows, width]
  Matrix<T> output;       // [rows, width]
};

// output = 0, whatever its type.
struct FillZero {
  Vector<std::byte> output;
};

template <typename E>
Vector<std::byte> bytes_of(Vector<E> vector) {
  return {reinterpret_cast<std::byte*>(vector.data), vector.size * static_cast<std::int64_t>(sizeof(E))};
}
template <typename E>
Vector<std::byte> bytes_of(Matrix<E> matrix) {
  DRAFTSMITH_CHECK(matrix.stride == matrix.columns, "the rows of these bytes lie side by side");
  return bytes_of(Vector<E>{matrix.data, matrix.rows * matrix.columns});
}

// output[i] = table[index[i]]; a zero row where index[i] < 0.
template <typename T>
struct GatherRows {
  Matrix<const T> table;             // [entries, width]
  Vector<const std::int32_t> index;  // [rows]
  Matrix<T> output;                  // [rows, width]
};

}  // namespace draftsmith
