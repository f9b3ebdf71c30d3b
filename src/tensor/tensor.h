// Typed views that own nothing. Row-major; a matrix's rows may be farther apart than its width (a slice of
// columns).
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/error.h"
#include "base/number.h"

namespace draftsmith {

enum class DType { float32, bf16 };
template <typename T>
inline constexpr DType kDType = DType::float32;
template <>
inline constexpr DType kDType<bf16> = DType::bf16;

// A place in memory, or nowhere in a view that only measures.
template <typename T>
constexpr T* offset_by(T* data, std::int64_t by) {
  return data == nullptr ? nullptr : data + by;
}

template <typename T>
struct Vector {
  T* data = nullptr;
  std::int64_t size = 0;

  constexpr T& operator[](std::int64_t index) const { return data[index]; }
  constexpr T* begin() const { return data; }
  constexpr T* end() const { return offset_by(data, size); }
  explicit operator bool() const { return data != nullptr; }
  operator Vector<const T>() const requires(!std::is_const_v<T>) { return {data, size}; }

  Vector slice(std::int64_t first, std::int64_t count) const {
    DRAFTSMITH_CHECK(first >= 0 && count >= 0 && first + count <= size, "a slice lies inside its vector");
    return {offset_by(data, first), count};
  }
};

template <typename T>
struct Matrix {
  T* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t stride = 0;  // elements from one row to the next, >= columns

  constexpr T* row(std::int64_t index) const { return data + index * stride; }
  constexpr T& operator()(std::int64_t r, std::int64_t c) const { return data[r * stride + c]; }
  explicit operator bool() const { return data != nullptr; }
  operator Matrix<const T>() const requires(!std::is_const_v<T>) { return {data, rows, columns, stride}; }

  Matrix slice_rows(std::int64_t first, std::int64_t count) const {
    DRAFTSMITH_CHECK(first >= 0 && count >= 0 && first + count <= rows, "a slice lies inside its matrix");
    return {offset_by(data, first * stride), count, columns, stride};
  }
  Matrix slice_columns(std::int64_t first, std::int64_t count) const {
    DRAFTSMITH_CHECK(first >= 0 && count >= 0 && first + count <= columns, "a slice lies inside its matrix");
    return {offset_by(data, first), rows, count, stride};
  }
};

template <typename T>
Matrix<T> matrix_view(T* data, std::int64_t rows, std::int64_t columns) {
  return {data, rows, columns, columns};
}

}  // namespace draftsmith
