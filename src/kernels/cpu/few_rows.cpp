// output[m,n] = left[m,k] right[n,k]^T for few rows (decoding): each row of the right operand (the weight) is
// read from memory once. Every output entry is one chain of fused multiply-adds over sixteen lanes in order
// of k, folded at the end, whatever the row count and however columns are grouped: a row's bits do not depend
// on the rows beside it.
#include <algorithm>

#include "base/arithmetic.h"
#include "device/cpu/parallel.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/vector_math.h"

namespace draftsmith::cpu {

namespace {

constexpr std::int64_t kMostRowsAtOnce = 8;
constexpr std::int64_t kMostColumnsAtOnce = 4;
constexpr int kMostAccumulators = 24;  // of 32 registers; the rest hold operands

// Columns of a tile of so many rows: enough chains to hide an addition's latency, as few streams through memory as that
// allows. Rows of weights whose stride is a large power of two share few places of the first cache.
constexpr std::int64_t columns_at_once(std::int64_t rows) { return rows <= 6 ? 4 : 3; }

using TileSums = float[kMostRowsAtOnce][kMostColumnsAtOnce];

template <typename T>
struct FewRows {
  const float* left;  // [rows, depth], widened
  std::int64_t left_stride;
  const T* right;  // [columns, depth]
  std::int64_t right_stride;
  std::int64_t depth;
};

// sums[r][c] for `rows` rows from `row` and `columns` columns from `column`. The weights of the next tile are asked for
// meanwhile: hardware follows so many short streams badly.
template <int rows, int columns, typename T>
void multiply(const FewRows<T>& product, std::int64_t row, std::int64_t column, TileSums& sums) {
  Lanes accumulators[rows][columns] = {};
  const float* left = product.left + row * product.left_stride;
  const T* right = product.right + column * product.right_stride;
  const std::int64_t ahead = columns * product.right_stride;
  for_lanes(0, product.depth, [&](auto place) {
    Lanes weights[columns];
    for (int c = 0; c < columns; ++c) {
      weights[c] = place.load(right + c * product.right_stride);
      __builtin_prefetch(right + c * product.right_stride + place.column + ahead);
    }
    for (int r = 0; r < rows; ++r) {
      const Lanes x = place.load(left + r * product.left_stride);
      for (int c = 0; c < columns; ++c) accumulators[r][c] += x * weights[c];
    }
  });
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c) sums[r][c] = sum_of(accumulators[r][c]);
  }
}

// Tiles of fewer rows than `columns` was chosen for are what a call's last rows leave.
template <int columns, int rows, typename T>
void multiply_rows(const FewRows<T>& product, std::int64_t row, std::int64_t row_count, std::int64_t column,
                   TileSums& sums) {
  if (row_count == rows) return multiply<rows, columns>(product, row, column, sums);
  if constexpr (rows > 1) multiply_rows<columns, rows - 1>(product, row, row_count, column, sums);
}

template <int columns, typename T>
void multiply_tile(const FewRows<T>& product, std::int64_t row, std::int64_t rows, std::int64_t column,
                   TileSums& sums) {
  constexpr int kMostRows = columns == 1 ? int{kMostRowsAtOnce} : kMostAccumulators / columns;
  multiply_rows<columns, kMostRows>(product, row, rows, column, sums);
}

template <typename T, typename Out>
class FewRowsMatmul : public CpuMatmul {
 public:
  explicit FewRowsMatmul(const MatmulShape& wanted) {
    shape = wanted;
    algorithm = choice = "few rows";
    if constexpr (!std::is_same_v<T, float>) {
      scratch_bytes = shape.rows * shape.depth * static_cast<std::int64_t>(sizeof(float));
    }
  }

  void run(const Stream& stream, const MatmulOperands& operands) const override {
    const FewRows<T> product = widen_left(operands);
    const std::int64_t rows_at_once = std::min(shape.rows, kMostRowsAtOnce);
    const std::int64_t columns_at_once = cpu::columns_at_once(rows_at_once);
    const std::int64_t groups = div_ceil(shape.columns, columns_at_once);
    // A multiply-add or a byte of weights, whichever is more: both take about as long, the one from caches, the other
    // from memory.
    const std::int64_t work = std::max<std::int64_t>(shape.rows, sizeof(T)) * shape.columns * shape.depth;
    parallel_ranges(stream, groups, work, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t group = begin; group < end; ++group) {
        const std::int64_t column = group * columns_at_once;
        const std::int64_t columns = std::min(columns_at_once, shape.columns - column);
        for (std::int64_t row = 0; row < shape.rows; row += rows_at_once) {
          const Tile tile{row, std::min(rows_at_once, shape.rows - row), column, columns};
          multiply_columns(product, tile, columns == columns_at_once, operands);
        }
      }
    });
  }

 private:
  FewRows<T> widen_left(const MatmulOperands& operands) const {
    FewRows<T> product{.left = nullptr,
                       .left_stride = shape.left_stride,
                       .right = static_cast<const T*>(operands.right),
                       .right_stride = shape.right_stride,
                       .depth = shape.depth};
    if constexpr (std::is_same_v<T, float>) {
      product.left = static_cast<const float*>(operands.left);
    } else {
      float* widened = static_cast<float*>(operands.scratch);
      for (std::int64_t row = 0; row < shape.rows; ++row) {
        const T* from = static_cast<const T*>(operands.left) + row * shape.left_stride;
        for_lanes(0, shape.depth,
                  [&](auto place) { place.store(widened + row * shape.depth, place.load(from)); });
      }
      product.left = widened;
      product.left_stride = shape.depth;
    }
    return product;
  }

  struct Tile {
    std::int64_t row, rows, column, columns;
  };

  // Columns that do not fill a tile go one by one; an entry's bits are the same.
  void multiply_columns(const FewRows<T>& product, const Tile& tile, bool full,
                        const MatmulOperands& operands) const {
    TileSums sums;
    if (full) {
      multiply_full(product, tile, sums);
    } else {
      for (std::int64_t c = 0; c < tile.columns; ++c) {
        TileSums one = {};
        multiply_tile<1>(product, tile.row, tile.rows, tile.column + c, one);
        for (std::int64_t r = 0; r < tile.rows; ++r) sums[r][c] = one[r][0];
      }
    }
    store(tile, sums, operands);
  }

  static void multiply_full(const FewRows<T>& product, const Tile& tile, TileSums& sums) {
    if (tile.columns == 4) return multiply_tile<4>(product, tile.row, tile.rows, tile.column, sums);
    multiply_tile<3>(product, tile.row, tile.rows, tile.column, sums);
  }

  void store(const Tile& tile, const TileSums& sums, const MatmulOperands& operands) const {
    const auto [row, rows, column, columns] = tile;
    for (std::int64_t r = 0; r < rows; ++r) {
      Out* output = static_cast<Out*>(operands.output) + (row + r) * shape.output_stride + column;
      for (std::int64_t c = 0; c < columns; ++c) {
        float value = sums[r][c];
        if (shape.bias) value += static_cast<float>(static_cast<const T*>(operands.bias)[column + c]);
        if (shape.accumulate) value += static_cast<float>(output[c]);
        output[c] = static_cast<Out>(value);
      }
    }
  }
};

}  // namespace

std::unique_ptr<PreparedMatmul> prepare_few_rows(const MatmulShape& shape) {
  if (shape.storage == DType::float32) {
    DRAFTSMITH_CHECK(shape.output == DType::float32, "products of floats are floats");
    return std::make_unique<FewRowsMatmul<float, float>>(shape);
  }
  if (shape.output == DType::float32) return std::make_unique<FewRowsMatmul<bf16, float>>(shape);
  return std::make_unique<FewRowsMatmul<bf16, bf16>>(shape);
}

}  // namespace draftsmith::cpu
