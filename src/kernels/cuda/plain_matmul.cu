// A product of any form and any strides, speed free: tiles of both operands in shared memory, one chain of
// fused multiply-adds an entry in order of k. It serves shapes whose rows do not begin on 16 bytes, and tests
// as a second opinion. A transposed operand is one whose strides are swapped.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matmul.h"
#include "kernels/cuda/vector.cuh"

namespace draftsmith::cuda {

namespace {

constexpr int kTile = 32;       // rows, columns and depth of a tile: 8 KB of shared memory
constexpr int kThreadRows = 8;  // threads are [kThreadRows, kTile]; each does kTile / kThreadRows rows
constexpr int kRowsAThread = kTile / kThreadRows;

template <typename T, typename Out>
struct PlainProduct {
  const T* left;
  const T* right;
  const T* bias;  // [columns], or null
  Out* output;
  std::int64_t left_row, left_depth;       // strides of left[m, k]
  std::int64_t right_depth, right_column;  // strides of right[k, n]
  std::int64_t output_stride;
  std::int64_t rows, columns, depth;
  bool accumulate;
};

template <typename T, typename Out>
__global__ void __launch_bounds__(kTile* kThreadRows) plain_matmul_kernel(PlainProduct<T, Out> product) {
  __shared__ float left[kTile][kTile + 1], right[kTile][kTile + 1];
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.y) * kTile;
  const std::int64_t first_column = static_cast<std::int64_t>(blockIdx.x) * kTile;
  float sums[kRowsAThread] = {};
  for (std::int64_t first = 0; first < product.depth; first += kTile) {
    for (int i = y; i < kTile; i += kThreadRows) {
      const std::int64_t row = first_row + i, column = first_column + i, k = first + x;
      const bool in_depth = k < product.depth;
      left[i][x] = in_depth && row < product.rows
                       ? to_float(product.left[row * product.left_row + k * product.left_depth])
                       : 0.0f;
      right[i][x] = in_depth && column < product.columns
                        ? to_float(product.right[k * product.right_depth + column * product.right_column])
                        : 0.0f;
    }
    __syncthreads();
    for (int k = 0; k < kTile; ++k) {
#pragma unroll
      for (int i = 0; i < kRowsAThread; ++i) {
        sums[i] = fmaf(left[y + i * kThreadRows][k], right[x][k], sums[i]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kRowsAThread; ++i) {
    const std::int64_t row = first_row + y + i * kThreadRows, column = first_column + x;
    if (row >= product.rows || column >= product.columns) continue;
    Out* output = product.output + row * product.output_stride + column;
    float value = sums[i];
    if (product.bias != nullptr) value += to_float(product.bias[column]);
    if (product.accumulate) value += to_float(*output);
    *output = to_stored<Out>(value);
  }
}

template <typename T, typename Out>
class PlainMatmul : public CudaMatmul {
 public:
  explicit PlainMatmul(const MatmulShape& wanted) {
    shape = wanted;
    algorithm = choice = "plain";
  }

  void run(const Stream& stream, const MatmulOperands& operands) const override {
    const bool left_transposed = shape.form == MatmulForm::tn;
    const bool right_transposed = shape.form == MatmulForm::nt;
    const PlainProduct<T, Out> product{.left = static_cast<const T*>(operands.left),
                                       .right = static_cast<const T*>(operands.right),
                                       .bias = shape.bias ? static_cast<const T*>(operands.bias) : nullptr,
                                       .output = static_cast<Out*>(operands.output),
                                       .left_row = left_transposed ? 1 : shape.left_stride,
                                       .left_depth = left_transposed ? shape.left_stride : 1,
                                       .right_depth = right_transposed ? 1 : shape.right_stride,
                                       .right_column = right_transposed ? shape.right_stride : 1,
                                       .output_stride = shape.output_stride,
                                       .rows = shape.rows,
                                       .columns = shape.columns,
                                       .depth = shape.depth,
                                       .accumulate = shape.accumulate};
    const dim3 grid(grid_of(div_ceil(shape.columns, kTile)),
                    static_cast<unsigned>(div_ceil(shape.rows, kTile)));
    DRAFTSMITH_CHECK(grid.y <= 65535, "a plain product has at most 2 million rows");
    plain_matmul_kernel<T, Out><<<grid, dim3(kTile, kThreadRows), 0, native(stream)>>>(product);
    check_launch("a plain product");
  }
};

}  // namespace

std::unique_ptr<CudaMatmul> prepare_plain(const MatmulShape& shape) {
  if (shape.storage == DType::float32) return std::make_unique<PlainMatmul<float, float>>(shape);
  if (shape.output == DType::float32) return std::make_unique<PlainMatmul<bf16, float>>(shape);
  return std::make_unique<PlainMatmul<bf16, bf16>>(shape);
}

}  // namespace draftsmith::cuda
