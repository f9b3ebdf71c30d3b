// Sums over rows in two steps: parts of the rows, then the parts in order. Sums of squares likewise, in
// double.
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/reduce.h"

namespace draftsmith::cuda {

namespace {

constexpr int kLanesOfParts = 16;  // each adds every sixteenth part; then the sixteen are added in order
constexpr int kThreads = 256;
constexpr std::int64_t kMaxColumnParts = 64;
constexpr std::int64_t kSquareParts = 1024;

__global__ void add_parts_kernel(const float* partial, std::int64_t parts, std::int64_t width,
                                 float* output) {
  __shared__ float sums[kLanesOfParts][kWarp];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kWarp + threadIdx.x;
  float sum = 0;
  if (column < width) {
    for (std::int64_t part = threadIdx.y; part < parts; part += kLanesOfParts) {
      sum += partial[part * width + column];
    }
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= width) return;
  for (int lane = 1; lane < kLanesOfParts; ++lane) sum += sums[lane][threadIdx.x];
  output[column] += sum;
}

template <typename T, int count>
__global__ void column_sum_kernel(Matrix<const T> input, float* partial) {
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * count;
  if (column >= input.columns) return;
  const std::int64_t part = blockIdx.y, parts = gridDim.y;
  float sums[count] = {};
  for (std::int64_t row = input.rows * part / parts; row < input.rows * (part + 1) / parts; ++row) {
    float values[count];
    load(input.row(row) + column, values);
#pragma unroll
    for (int i = 0; i < count; ++i) sums[i] += values[i];
  }
  store(partial + part * input.columns + column, sums);
}

template <int count>
__global__ void square_parts_kernel(const float* input, std::int64_t size, double* partial) {
  __shared__ double shared[32];
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x * count;
  double sum = 0;
  for (std::int64_t index = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * count;
       index < size; index += step) {
    float values[count];
    load(input + index, values);
#pragma unroll
    for (int i = 0; i < count; ++i) sum += static_cast<double>(values[i]) * values[i];
  }
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void add_square_parts_kernel(const double* partial, double* output) {
  __shared__ double shared[32];
  double sum = 0;
  for (std::int64_t part = threadIdx.x; part < kSquareParts; part += kThreads) sum += partial[part];
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) output[0] = sum;
}

std::int64_t column_parts(std::int64_t rows) {
  return std::min(kMaxColumnParts, std::max<std::int64_t>(1, rows));
}

}  // namespace

void add_parts(const Stream& stream, const float* partial, std::int64_t parts, std::int64_t width,
               float* output) {
  add_parts_kernel<<<grid_of(div_ceil(width, kWarp)), dim3(kWarp, kLanesOfParts), 0, native(stream)>>>(
      partial, parts, width, output);
  check_launch("adding partial sums");
}

template <typename T>
std::int64_t column_sum_scratch(const Device&, const ColumnSum<T>& arguments) {
  return column_parts(arguments.input.rows) * arguments.input.columns *
         static_cast<std::int64_t>(sizeof(float));
}

template <typename T>
void column_sum(const Stream& stream, const ColumnSum<T>& arguments) {
  const auto& [input, output] = arguments;
  DRAFTSMITH_CHECK(input.columns == output.size, "one sum for each column");
  if (input.columns == 0) return;
  const std::int64_t parts = column_parts(input.rows);
  float* partial = scratch_array<float>(stream, parts * input.columns);
  const auto launch = [&]<int count>() {
    const dim3 grid(grid_of(div_ceil(input.columns, kThreads * count)), static_cast<unsigned>(parts));
    column_sum_kernel<T, count><<<grid, kThreads, 0, native(stream)>>>(input, partial);
  };
  is_wide(input) ? launch.template operator()<kWide<T>>() : launch.template operator()<1>();
  check_launch("summing columns");
  add_parts(stream, partial, parts, input.columns, output.data);
}

template <typename T>
std::int64_t sum_of_squares_scratch(const Device&, const SumOfSquares<T>&) {
  return kSquareParts * static_cast<std::int64_t>(sizeof(double));
}

template <typename T>
void sum_of_squares(const Stream& stream, const SumOfSquares<T>& arguments) {
  const Vector<const float> input = arguments.input;
  double* partial = scratch_array<double>(stream, kSquareParts);
  if (is_wide(input)) {
    square_parts_kernel<4><<<kSquareParts, kThreads, 0, native(stream)>>>(input.data, input.size, partial);
  } else {
    square_parts_kernel<1><<<kSquareParts, kThreads, 0, native(stream)>>>(input.data, input.size, partial);
  }
  check_launch("summing squares");
  add_square_parts_kernel<<<1, kThreads, 0, native(stream)>>>(partial, arguments.output.data);
  check_launch("adding sums of squares");
}

template std::int64_t column_sum_scratch(const Device&, const ColumnSum<float>&);
template std::int64_t column_sum_scratch(const Device&, const ColumnSum<bf16>&);
template void column_sum(const Stream&, const ColumnSum<float>&);
template void column_sum(const Stream&, const ColumnSum<bf16>&);
template std::int64_t sum_of_squares_scratch(const Device&, const SumOfSquares<float>&);
template std::int64_t sum_of_squares_scratch(const Device&, const SumOfSquares<bf16>&);
template void sum_of_squares(const Stream&, const SumOfSquares<float>&);
template void sum_of_squares(const Stream&, const SumOfSquares<bf16>&);

}  // namespace draftsmith::cuda
