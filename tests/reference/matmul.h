// The three forms of a product, entry by entry in double.
#pragma once

#include <cmath>
#include <vector>

#include "kernels/matmul.h"

namespace draftsmith::test {

struct MatmulReference {
  std::vector<double> values;      // [rows, columns]
  std::vector<double> magnitudes;  // the sum of |left| |right| behind each value
};

template <typename T>
MatmulReference matmul_reference(MatmulForm form, Matrix<const T> left, Matrix<const T> right) {
  const bool left_transposed = form == MatmulForm::tn, right_transposed = form == MatmulForm::nt;
  const std::int64_t rows = left_transposed ? left.columns : left.rows;
  const std::int64_t depth = left_transposed ? left.rows : left.columns;
  const std::int64_t columns = right_transposed ? right.rows : right.columns;
  MatmulReference result;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      double sum = 0, magnitude = 0;
      for (std::int64_t k = 0; k < depth; ++k) {
        const double a = left_transposed ? left(k, row) : left(row, k);
        const double b = right_transposed ? right(column, k) : right(k, column);
        sum += a * b;
        magnitude += std::abs(a * b);
      }
      result.values.push_back(sum);
      result.magnitudes.push_back(magnitude);
    }
  }
  return result;
}

}  // namespace draftsmith::test
