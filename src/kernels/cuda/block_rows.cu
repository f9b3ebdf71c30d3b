// Spreading and folding of rows that blocks share. Folding sums in two steps: parts of the blocks, then the
// parts in order.
#include "kernels/block_rows.h"
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/vector.cuh"

namespace draftsmith::cuda {

namespace {

constexpr int kThreads = 256;

// A block of threads a row of the output.
template <typename T, int count>
__global__ void spread_kernel(Matrix<const T> distinct, std::int64_t block_size, Matrix<T> output) {
  const std::int64_t row = blockIdx.x, blocks = distinct.rows - 2;
  const T* from = distinct.row(row % block_size == 0 ? row / block_size : blocks);
  for (std::int64_t column = threadIdx.x * count; column < output.columns;
       column += static_cast<std::int64_t>(blockDim.x) * count) {
    float values[count];
    load(from + column, values);
    store(output.row(row) + column, values);
  }
}

// Copies the first slots of a part of the blocks and sums their others.
template <typename T, int count>
__global__ void fold_parts_kernel(Matrix<const T> input, std::int64_t block_size, Matrix<T> distinct,
                                  float* partial) {
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * count;
  if (column >= input.columns) return;
  const std::int64_t part = blockIdx.y, parts = gridDim.y, blocks = distinct.rows - 2;
  float sums[count] = {};
  for (std::int64_t block = blocks * part / parts; block < blocks * (part + 1) / parts; ++block) {
    float values[count];
    load(input.row(block * block_size) + column, values);
    store(distinct.row(block) + column, values);
    for (std::int64_t slot = 1; slot < block_size; ++slot) {
      load(input.row(block * block_size + slot) + column, values);
#pragma unroll
      for (int i = 0; i < count; ++i) sums[i] += values[i];
    }
  }
  store(partial + part * input.columns + column, sums);
}

template <typename T>
__global__ void fold_sums_kernel(const float* partial, std::int64_t parts, Matrix<T> distinct) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= distinct.columns) return;
  float sum = 0;
  for (std::int64_t part = 0; part < parts; ++part) sum += partial[part * distinct.columns + column];
  const T rounded = to_stored<T>(sum);
  distinct.row(distinct.rows - 2)[column] = rounded;
  distinct.row(distinct.rows - 1)[column] = to_stored<T>(sum - to_float(rounded));
}

}  // namespace

template <typename T>
void spread_block_rows(const Stream& stream, const SpreadBlockRows<T>& arguments) {
  const auto& [distinct, block_size, output] = arguments;
  blocks_of(output, distinct, block_size);
  if (output.rows == 0) return;
  const auto launch = [&]<int count>(std::int64_t size) {
    spread_kernel<T, count>
        <<<grid_of(output.rows), kThreads, 0, native(stream)>>>(distinct, size, output);
  };
  const bool wide = is_wide(distinct) && is_wide(output);
  wide ? launch.template operator()<kWide<T>>(block_size) : launch.template operator()<1>(block_size);
  check_launch("spreading rows of blocks");
}

template <typename T>
std::int64_t fold_block_rows_scratch(const Device&, const FoldBlockRows<T>& arguments) {
  const std::int64_t blocks = arguments.distinct.rows - 2;
  return parts_of(blocks) * arguments.input.columns * static_cast<std::int64_t>(sizeof(float));
}

template <typename T>
void fold_block_rows(const Stream& stream, const FoldBlockRows<T>& arguments) {
  const Matrix<const T> input = arguments.input;
  const Matrix<T> distinct = arguments.distinct;
  const std::int64_t parts = parts_of(blocks_of(input, distinct, arguments.block_size));
  float* partial = scratch_array<float>(stream, parts * input.columns);
  const auto launch = [&]<int count>() {
    const dim3 grid(grid_of(div_ceil(input.columns, kThreads * count)), static_cast<unsigned>(parts));
    fold_parts_kernel<T, count>
        <<<grid, kThreads, 0, native(stream)>>>(input, arguments.block_size, distinct, partial);
  };
  const bool wide = is_wide(input) && is_wide(distinct);
  wide ? launch.template operator()<kWide<T>>() : launch.template operator()<1>();
  check_launch("folding rows of blocks");
  fold_sums_kernel<<<grid_of(div_ceil(input.columns, kThreads)), kThreads, 0, native(stream)>>>(
      partial, parts, distinct);
  check_launch("adding folded rows");
}

template void spread_block_rows(const Stream&, const SpreadBlockRows<float>&);
template void spread_block_rows(const Stream&, const SpreadBlockRows<bf16>&);
template std::int64_t fold_block_rows_scratch(const Device&, const FoldBlockRows<float>&);
template std::int64_t fold_block_rows_scratch(const Device&, const FoldBlockRows<bf16>&);
template void fold_block_rows(const Stream&, const FoldBlockRows<float>&);
template void fold_block_rows(const Stream&, const FoldBlockRows<bf16>&);

}  // namespace draftsmith::cuda
