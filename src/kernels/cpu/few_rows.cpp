// output[m,n] = left[m,k] right[n,k]^T for few rows (decoding): each row of the right operand (the weight) is
// read from memory once. Every output entry is one chain of fused multiply-adds over sixteen lanes in order
// of k, folded at the end, whatever the row count and however columns are grouped: a row's bits do not depend
// on the rows beside it.
#include "base/arithmetic.h"
#include "device/cpu/parallel.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/vector_math.h"

namespace draftsmith::cpu {

namespace {

constexpr std::int64_t kColumnsAtOnce = 4;  // with four rows: sixteen accumulators of the 32 registers
constexpr std::int64_t kRowsAtOnce = 4;

template <typename T>
struct FewRows {
  const float* left;  // [rows, depth], widened
  std::int64_t left_stride;
  const T* right;  // [columns, depth]
  std::int64_t right_stride;
  std::int64_t depth;
};

// sums[r][c] for `rows` rows from `row` and `columns` columns from `column`.
template <int rows, int columns, typename T>
void multiply(const FewRows<T>& product, std::int64_t row, std::int64_t column,
              float (&sums)[kRowsAtOnce][kColumnsAtOnce]) {
  Lanes accumulators[rows][columns] = {};
  const float* left = product.left + row * product.left_stride;
  const T* right = product.right + column * product.right_stride;
  for_lanes(0, product.depth, [&](auto place) {
    Lanes weights[columns];
    for (int c = 0; c < columns; ++c) weights[c] = place.load(right + c * product.right_stride);
    for (int r = 0; r < rows; ++r) {
      const Lanes x = place.load(left + r * product.left_stride);
      for (int c = 0; c < columns; ++c) accumulators[r][c] += x * weights[c];
    }
  });
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c) sums[r][c] = sum_of(accumulators[r][c]);
  }
}

template <int columns, typename T>
void multiply_rows(const FewRows<T>& product, std::int64_t row, std::int64_t rows, std::int64_t column,
                   float (&sums)[kRowsAtOnce][kColumnsAtOnce]) {
  switch (rows) {
    case 1:
      return multiply<1, columns>(product, row, column, sums);
    case 2:
      return multiply<2, columns>(product, row, column, sums);
    case 3:
      return multiply<3, columns>(product, row, column, sums);
    default:
      return multiply<4, columns>(product, row, column, sums);
  }
}

template <typename T, typename Out>
class FewRowsMatmul : public CpuMatmul {
 public:
  explicit FewRowsMatmul(const MatmulShape& wanted) {
    shape = wanted;
    algorithm = "few rows";
    if constexpr (!std::is_same_v<T, float>) {
      scratch_bytes = shape.rows * shape.depth * static_cast<std::int64_t>(sizeof(float));
    }
  }

  void run(const Stream& stream, const MatmulOperands& operands) const override {
    const FewRows<T> product = widen_left(operands);
    const std::int64_t groups = div_ceil(shape.columns, kColumnsAtOnce);
    const std::int64_t work = shape.rows * shape.columns * shape.depth / 8;
    parallel_ranges(stream, groups, work, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t group = begin; group < end; ++group) {
        const std::int64_t column = group * kColumnsAtOnce;
        const std::int64_t columns = std::min(kColumnsAtOnce, shape.columns - column);
        for (std::int64_t row = 0; row < shape.rows; row += kRowsAtOnce) {
          run_tile(product, operands, row, column, columns);
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

  void run_tile(const FewRows<T>& product, const MatmulOperands& operands, std::int64_t row,
                std::int64_t column, std::int64_t columns) const {
    const std::int64_t rows = std::min(kRowsAtOnce, shape.rows - row);
    float sums[kRowsAtOnce][kColumnsAtOnce];
    if (columns == kColumnsAtOnce) {
      multiply_rows<kColumnsAtOnce>(product, row, rows, column, sums);
    } else {
      for (std::int64_t c = 0; c < columns; ++c) {
        float one[kRowsAtOnce][kColumnsAtOnce];
        multiply_rows<1>(product, row, rows, column + c, one);
        for (std::int64_t r = 0; r < rows; ++r) sums[r][c] = one[r][0];
      }
    }
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
