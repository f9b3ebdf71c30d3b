// Rows that blocks share. Where all slots of a block but the first hold the same row in every block, as the
// mask tokens do at the entry of the first layer, `blocks` + 2 distinct rows stand for blocks * block_size:
//   distinct row b < blocks      slot 0 of block b
//   distinct rows blocks and blocks + 1      the shared row; spreading reads the first, folding writes both
// Spreading is a copy. Folding is its transpose, for gradients: the sum over all shared rows, in fp32 and in
// an order that depends on the shape alone, is written as a value of T and as what its rounding left, so that
// products with both rows lose nothing of it.
#pragma once

#include "tensor/tensor.h"

namespace draftsmith {

inline std::int64_t distinct_block_rows(std::int64_t blocks) { return blocks + 2; }

// output[b * block_size] = distinct[b]; every other row = distinct[blocks], bit for bit.
template <typename T>
struct SpreadBlockRows {
  Matrix<const T> distinct;  // [blocks + 2, width]
  std::int64_t block_size = 0;
  Matrix<T> output;  // [blocks * block_size, width]
};

// distinct[b] = input[b * block_size]; distinct[blocks] + distinct[blocks + 1] = sum over the other rows.
template <typename T>
struct FoldBlockRows {
  Matrix<const T> input;  // [blocks * block_size, width]
  std::int64_t block_size = 0;
  Matrix<T> distinct;  // [blocks + 2, width]
};

// How many blocks `whole` has, whose distinct rows are `distinct`: what both launches check.
template <typename Whole, typename Distinct>
std::int64_t blocks_of(const Matrix<Whole>& whole, const Matrix<Distinct>& distinct,
                       std::int64_t block_size) {
  DRAFTSMITH_CHECK(block_size > 0 && whole.rows % block_size == 0, "rows come in whole blocks");
  const std::int64_t blocks = whole.rows / block_size;
  DRAFTSMITH_CHECK(distinct.rows == distinct_block_rows(blocks) && distinct.columns == whole.columns,
                   "two distinct rows more than blocks, as wide as the others");
  return blocks;
}

}  // namespace draftsmith
