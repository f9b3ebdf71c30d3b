// One block of threads a row; a thread keeps its columns in registers between the row's sum and its use.
// Backward walks a fixed number of runs of rows, so that a thread also keeps its columns' weight gradients.
#include <string>

#include "base/error.h"
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/rmsnorm.h"

namespace draftsmith::cuda {

namespace {

// How a row is cut: chunk c of thread t holds `count` columns from (c * threads + t) * count on. Few chunks a
// thread leave registers for several blocks on a processor; forward is content with two, backward, which
// keeps three values a column, takes one where 512 threads reach.
constexpr int most_threads(int chunks) { return chunks == 16 ? 1024 : 512; }

template <int count>
__device__ std::int64_t column_of(int chunk) {
  return (static_cast<std::int64_t>(chunk) * blockDim.x + threadIdx.x) * count;
}

template <typename T, int count, int kKept>
__global__ __launch_bounds__(most_threads(kKept)) void rmsnorm_forward_kernel(RmsNormForward<T> arguments) {
  __shared__ float shared[32];
  const std::int64_t row = blockIdx.x, width = arguments.input.columns;
  float kept[kKept][count];
  float squares = 0;
#pragma unroll
  for (int chunk = 0; chunk < kKept; ++chunk) {
    const std::int64_t column = column_of<count>(chunk);
    if (column >= width) continue;
    load(arguments.input.row(row) + column, kept[chunk]);
    if (arguments.addend.data != nullptr) {
      float addend[count];
      load(arguments.addend.row(row) + column, addend);
#pragma unroll
      for (int i = 0; i < count; ++i) kept[chunk][i] = rounded<T>(kept[chunk][i] + addend[i]);
      store(arguments.sum.row(row) + column, kept[chunk]);
    }
#pragma unroll
    for (int i = 0; i < count; ++i) squares += kept[chunk][i] * kept[chunk][i];
  }
  const float mean = block_sum(squares, shared) / static_cast<float>(width);
  const float r = 1.0f / sqrtf(mean + arguments.epsilon);
  if (threadIdx.x == 0 && arguments.inverse_rms.data != nullptr) arguments.inverse_rms.data[row] = r;
#pragma unroll
  for (int chunk = 0; chunk < kKept; ++chunk) {
    const std::int64_t column = column_of<count>(chunk);
    if (column >= width) continue;
    float weight[count];
    load(arguments.weight.data + column, weight);
#pragma unroll
    for (int i = 0; i < count; ++i) kept[chunk][i] = weight[i] * rounded<T>(kept[chunk][i] * r);
    store(arguments.output.row(row) + column, kept[chunk]);
  }
}

template <typename T, int count, int kKept>
__global__ __launch_bounds__(most_threads(kKept)) void rmsnorm_backward_kernel(RmsNormBackward<T> arguments, float* partial) {
  __shared__ float shared[32];
  const std::int64_t rows = arguments.sum.rows, width = arguments.sum.columns;
  const std::int64_t part = blockIdx.x, parts = gridDim.x;
  float grad_weight[kKept][count] = {};
  for (std::int64_t row = rows * part / parts; row < rows * (part + 1) / parts; ++row) {
    const float r = arguments.inverse_rms.data[row];
    const float row_weight = arguments.row_weights.data != nullptr ? arguments.row_weights.data[row] : 1.0f;
    float sum[kKept][count], h[kKept][count], residual[kKept][count] = {};
    float products = 0;
#pragma unroll
    for (int chunk = 0; chunk < kKept; ++chunk) {
      const std::int64_t column = column_of<count>(chunk);
      if (column >= width) continue;
      float weight[count];
      load(arguments.sum.row(row) + column, sum[chunk]);
      load(arguments.grad_output.row(row) + column, h[chunk]);
      load(arguments.weight.data + column, weight);
      // Asked for here, so that it arrives while the row is summed.
      if (arguments.grad_residual.data != nullptr) {
        load(arguments.grad_residual.row(row) + column, residual[chunk]);
      }
#pragma unroll
      for (int i = 0; i < count; ++i) {
        h[chunk][i] *= row_weight;
        grad_weight[chunk][i] += h[chunk][i] * (sum[chunk][i] * r);
        h[chunk][i] *= weight[i];
        products += h[chunk][i] * sum[chunk][i];
      }
    }
    const float along = r * r * r * block_sum(products, shared) / static_cast<float>(width);
#pragma unroll
    for (int chunk = 0; chunk < kKept; ++chunk) {
      const std::int64_t column = column_of<count>(chunk);
      if (column >= width) continue;
#pragma unroll
      for (int i = 0; i < count; ++i) residual[chunk][i] += h[chunk][i] * r - sum[chunk][i] * along;
      store(arguments.grad_sum.row(row) + column, residual[chunk]);
    }
  }
#pragma unroll
  for (int chunk = 0; chunk < kKept; ++chunk) {
    const std::int64_t column = column_of<count>(chunk);
    if (column < width) store(partial + part * width + column, grad_weight[chunk]);
  }
}

// Two chunks a thread where that leaves whole warps: enough loads in flight without idle threads.
template <int count, int chunks, typename Launch>
bool try_chunks(std::int64_t width, const Launch& launch) {
  const std::int64_t threads = round_up(div_ceil(width, count * chunks), kWarp);
  if (threads > most_threads(chunks)) return false;
  launch.template operator()<count, chunks>(static_cast<unsigned>(threads));
  return true;
}

// launch.operator()<count, chunks>(threads), with the first of `few` chunks and more that reaches.
template <int count, int few, typename Launch>
void with_chunks(std::int64_t width, const Launch& launch) {
  constexpr int kMost = count == 1 ? 16 : 4;
  const bool fits = try_chunks<count, few>(width, launch) || try_chunks<count, 2>(width, launch) ||
                    try_chunks<count, kMost>(width, launch);
  if (fits) return;
  throw Error("hidden states of " + std::to_string(width) + " numbers are wider than RMSNorm takes on a GPU in this type (" +
              std::to_string(count * kMost * most_threads(kMost)) + "). Run this model on a CPU device");
}

template <typename T>
void check_forward(const RmsNormForward<T>& arguments) {
  const std::int64_t rows = arguments.input.rows, width = arguments.input.columns;
  DRAFTSMITH_CHECK(
      arguments.weight.size == width && arguments.output.rows == rows && arguments.output.columns == width,
      "a weight for each column, an output like the input");
  DRAFTSMITH_CHECK(!arguments.addend || (arguments.addend.rows == rows && arguments.addend.columns == width &&
                                         arguments.sum.rows == rows && arguments.sum.columns == width),
                   "addend and sum are like the input");
}

}  // namespace

template <typename T>
void rmsnorm_forward(const Stream& stream, const RmsNormForward<T>& arguments) {
  check_forward(arguments);
  const std::int64_t rows = arguments.input.rows, width = arguments.input.columns;
  if (rows == 0) return;
  const auto launch = [&]<int count, int chunks>(unsigned threads) {
    rmsnorm_forward_kernel<T, count, chunks><<<grid_of(rows), threads, 0, native(stream)>>>(arguments);
  };
  const bool wide = is_wide(arguments.input) && is_wide(arguments.output) && is_wide(arguments.weight) &&
                    (!arguments.addend || (is_wide(arguments.addend) && is_wide(arguments.sum)));
  wide ? with_chunks<kWide<T>, 2>(width, launch) : with_chunks<1, 2>(width, launch);
  check_launch("RMSNorm");
}

template <typename T>
std::int64_t rmsnorm_backward_scratch(const Device&, const RmsNormBackward<T>& arguments) {
  return parts_of(arguments.sum.rows) * arguments.sum.columns * static_cast<std::int64_t>(sizeof(float));
}

template <typename T>
void rmsnorm_backward(const Stream& stream, const RmsNormBackward<T>& arguments) {
  const std::int64_t rows = arguments.sum.rows, width = arguments.sum.columns;
  DRAFTSMITH_CHECK(arguments.weight.size == width && arguments.grad_weight.size == width &&
                       arguments.inverse_rms.size == rows &&
                       (!arguments.row_weights || arguments.row_weights.size == rows),
                   "a weight for each column, a scale for each row");
  DRAFTSMITH_CHECK(arguments.grad_output.rows == rows && arguments.grad_output.columns == width &&
                       arguments.grad_sum.rows == rows && arguments.grad_sum.columns == width,
                   "gradients are like what they are of");
  if (rows == 0) return;
  const std::int64_t parts = parts_of(rows);
  float* partial = scratch_array<float>(stream, parts * width);
  const auto launch = [&]<int count, int chunks>(unsigned threads) {
    rmsnorm_backward_kernel<T, count, chunks>
        <<<grid_of(parts), threads, 0, native(stream)>>>(arguments, partial);
  };
  const bool wide = is_wide(arguments.sum) && is_wide(arguments.grad_output) && is_wide(arguments.weight) &&
                    is_wide(arguments.grad_sum) &&
                    (!arguments.grad_residual || is_wide(arguments.grad_residual));
  wide ? with_chunks<kWide<T>, 1>(width, launch) : with_chunks<1, 2>(width, launch);
  check_launch("the gradient of RMSNorm");
  add_parts(stream, partial, parts, width, arguments.grad_weight.data);
}

template void rmsnorm_forward(const Stream&, const RmsNormForward<float>&);
template void rmsnorm_forward(const Stream&, const RmsNormForward<bf16>&);
template std::int64_t rmsnorm_backward_scratch(const Device&, const RmsNormBackward<float>&);
template std::int64_t rmsnorm_backward_scratch(const Device&, const RmsNormBackward<bf16>&);
template void rmsnorm_backward(const Stream&, const RmsNormBackward<float>&);
template void rmsnorm_backward(const Stream&, const RmsNormBackward<bf16>&);

}  // namespace draftsmith::cuda
