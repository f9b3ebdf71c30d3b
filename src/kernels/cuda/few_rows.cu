// output[m,n] = left[m,k] right[n,k]^T for few rows (decoding): each row of the right operand (the weight) is
// read from memory once. A row's bits do not depend on the rows beside it, nor on how columns are grouped:
//   bf16   tensor cores, whose rows know nothing of each other. A block of threads does 16 columns; its warps
//          take steps of 32 k in turn, and their sums are added in order.
//   float  one chain of fused multiply-adds a lane, in order of k, folded over the lanes at the end. A warp
//          does a few columns for up to 16 rows; more rows read the weights again. Also bf16 whose rows do
//          not begin on 16 bytes.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/matmul.h"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/vector.cuh"

namespace draftsmith::cuda {

namespace {

constexpr int kWarps = 4;

template <typename T, typename Out>
struct FewRows {
  const T* left;   // [rows, depth]
  const T* right;  // [columns, depth]
  const T* bias;   // [columns], or null
  Out* output;     // [rows, columns]
  std::int64_t left_stride, right_stride, output_stride;
  std::int64_t rows, columns, depth;
  bool accumulate;
};

// Columns that a warp does at once: with up to 16 rows, what the accumulators leave of the registers.
constexpr int kColumns = 4;

template <typename T, typename Out, int rows, int count>
__global__ void __launch_bounds__(kWarps * 32)
    few_rows_kernel(FewRows<T, Out> product, std::int64_t first_row) {
  constexpr int columns = kColumns;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32) * columns;
  if (first >= product.columns) return;
  float sums[rows][columns] = {};
  for (std::int64_t k = static_cast<std::int64_t>(lane) * count; k < product.depth; k += 32 * count) {
    float weights[columns][count];
#pragma unroll
    for (int c = 0; c < columns; ++c) {
      // Columns and rows beyond the end are computed from the last one and not stored.
      const std::int64_t column = first + c < product.columns ? first + c : product.columns - 1;
      load(product.right + column * product.right_stride + k, weights[c]);
    }
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const std::int64_t row = first_row + r < product.rows ? first_row + r : product.rows - 1;
      float x[count];
      load(product.left + row * product.left_stride + k, x);
#pragma unroll
      for (int c = 0; c < columns; ++c) {
#pragma unroll
        for (int i = 0; i < count; ++i) sums[r][c] = fmaf(x[i], weights[c][i], sums[r][c]);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < rows; ++r) {
#pragma unroll
    for (int c = 0; c < columns; ++c) {
      float value = group_sum(sums[r][c], 32);
      const std::int64_t row = first_row + r, column = first + c;
      if (lane != 0 || row >= product.rows || column >= product.columns) continue;
      Out* output = product.output + row * product.output_stride + column;
      if (product.bias != nullptr) value += to_float(product.bias[column]);
      if (product.accumulate) value += to_float(*output);
      *output = to_stored<Out>(value);
    }
  }
}

constexpr int kTileWarps = 8;
constexpr int kTileRows = 16, kTileColumns = 8;  // of one instruction
constexpr int kBlockColumns = 2 * kTileColumns;
constexpr int kStep = 32;     // k of one step: 8 for each of the four lanes that share a row
constexpr int kUnrolled = 4;  // steps whose loads are in flight together

// Eight neighbours of a row; zeros beyond the end.
__device__ uint4 load_eight(const bf16* row, std::int64_t k, std::int64_t depth, bool inside) {
  return inside && k < depth ? *reinterpret_cast<const uint4*>(row + k) : uint4{0, 0, 0, 0};
}

// Lane 4 g + t holds k in [8 t, 8 t + 8) of rows g and g + 8, and of column g: the first four of the eight make
// one product of 16 k, the last four another. Which k meets which place of the instruction does not matter as
// long as both operands agree.
template <typename Out, int tiles>
__global__ void __launch_bounds__(kTileWarps * 32) few_rows_tile_kernel(FewRows<bf16, Out> product) {
  __shared__ float partial[kTileWarps][tiles * kTileRows][kBlockColumns + 1];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int g = lane / 4, t = lane % 4;
  const std::int64_t first_column = static_cast<std::int64_t>(blockIdx.x) * kBlockColumns;
  float sums[tiles][2][4] = {};
  for (std::int64_t base = static_cast<std::int64_t>(warp) * kStep; base < product.depth;
       base += kUnrolled * kTileWarps * kStep) {
    uint4 left[kUnrolled][tiles][2], right[kUnrolled][2];
#pragma unroll
    for (int step = 0; step < kUnrolled; ++step) {
      const std::int64_t k = base + step * kTileWarps * kStep + 8 * t;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const std::int64_t column = first_column + half * kTileColumns + g;
        right[step][half] = load_eight(product.right + column * product.right_stride, k, product.depth,
                                       column < product.columns);
#pragma unroll
        for (int tile = 0; tile < tiles; ++tile) {
          const std::int64_t row = tile * kTileRows + half * 8 + g;
          left[step][tile][half] =
              load_eight(product.left + row * product.left_stride, k, product.depth, row < product.rows);
        }
      }
    }
#pragma unroll
    for (int step = 0; step < kUnrolled; ++step) {
#pragma unroll
      for (int tile = 0; tile < tiles; ++tile) {
        const uint4 low = left[step][tile][0], high = left[step][tile][1];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const uint4 weights = right[step][half];
          multiply_add(sums[tile][half], {low.x, high.x, low.y, high.y}, weights.x, weights.y);
          multiply_add(sums[tile][half], {low.z, high.z, low.w, high.w}, weights.z, weights.w);
        }
      }
    }
  }
#pragma unroll
  for (int tile = 0; tile < tiles; ++tile) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        partial[warp][tile * kTileRows + g + i / 2 * 8][half * kTileColumns + 2 * t + i % 2] =
            sums[tile][half][i];
      }
    }
  }
  __syncthreads();
  for (int entry = static_cast<int>(threadIdx.x); entry < tiles * kTileRows * kBlockColumns;
       entry += kTileWarps * 32) {
    const int row = entry / kBlockColumns, column = entry % kBlockColumns;
    if (row >= product.rows || first_column + column >= product.columns) continue;
    float value = 0;
    for (int other = 0; other < kTileWarps; ++other) value += partial[other][row][column];
    Out* output = product.output + row * product.output_stride + first_column + column;
    if (product.bias != nullptr) value += to_float(product.bias[first_column + column]);
    if (product.accumulate) value += to_float(*output);
    *output = to_stored<Out>(value);
  }
}

template <typename Out>
void launch_tiles(const Stream& stream, const FewRows<bf16, Out>& product) {
  const unsigned grid = grid_of(div_ceil(product.columns, kBlockColumns));
  if (product.rows <= kTileRows) {
    few_rows_tile_kernel<Out, 1><<<grid, kTileWarps * kWarp, 0, native(stream)>>>(product);
  } else {
    few_rows_tile_kernel<Out, 2><<<grid, kTileWarps * kWarp, 0, native(stream)>>>(product);
  }
  check_launch("a product of few rows");
}

template <int rows, int count, typename T, typename Out>
void launch_rows(const Stream& stream, const FewRows<T, Out>& product) {
  for (std::int64_t first = 0; first < product.rows; first += rows) {
    few_rows_kernel<T, Out, rows, count>
        <<<grid_of(div_ceil(product.columns, kWarps * kColumns)), kWarps * kWarp, 0, native(stream)>>>(
            product, first);
    check_launch("a product of few rows");
  }
}

template <typename T, typename Out>
class FewRowsMatmul : public CudaMatmul {
 public:
  explicit FewRowsMatmul(const MatmulShape& wanted) {
    shape = wanted;
    algorithm = choice = "few rows";
  }

  void run(const Stream& stream, const MatmulOperands& operands) const override {
    const FewRows<T, Out> product{.left = static_cast<const T*>(operands.left),
                                  .right = static_cast<const T*>(operands.right),
                                  .bias = shape.bias ? static_cast<const T*>(operands.bias) : nullptr,
                                  .output = static_cast<Out*>(operands.output),
                                  .left_stride = shape.left_stride,
                                  .right_stride = shape.right_stride,
                                  .output_stride = shape.output_stride,
                                  .rows = shape.rows,
                                  .columns = shape.columns,
                                  .depth = shape.depth,
                                  .accumulate = shape.accumulate};
    if (!is_wide(product.left, shape.left_stride, shape.depth) ||
        !is_wide(product.right, shape.right_stride, shape.depth)) {
      return launch_rows<8, 1>(stream, product);
    }
    if constexpr (std::is_same_v<T, bf16>) {
      launch_tiles(stream, product);
    } else {
      constexpr int kVector = kWide<float>;
      if (shape.rows == 1) return launch_rows<1, kVector>(stream, product);
      if (shape.rows <= 8) return launch_rows<8, kVector>(stream, product);
      launch_rows<16, kVector>(stream, product);
    }
  }
};

}  // namespace

std::unique_ptr<CudaMatmul> prepare_few_rows(const MatmulShape& shape) {
  if (shape.storage == DType::float32) return std::make_unique<FewRowsMatmul<float, float>>(shape);
  if (shape.output == DType::float32) return std::make_unique<FewRowsMatmul<bf16, float>>(shape);
  return std::make_unique<FewRowsMatmul<bf16, bf16>>(shape);
}

}  // namespace draftsmith::cuda
