// A group of neighbouring lanes does one head: each lane holds the same columns of both halves, since the
// rotation mixes column i with i + D/2. Groups are as small as a head allows, so a warp does several heads.
// Backward walks a fixed number of runs of heads, so that a lane also keeps its columns' weight gradients.
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/head_norm_rope.h"

namespace draftsmith::cuda {

namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxHeadDim = 512;  // what the chunks of a warp hold

// Chunk c of a lane holds `count` columns of each half from (c * group + lane) * count on.
struct HeadCut {
  unsigned heads;     // of a row
  unsigned items;     // heads of all rows
  std::int64_t half;  // head_dim / 2
  int group;          // lanes of a head, a power of two
};

// Chunks of a lane: one when a warp covers a half wide, eight for single columns.
template <int count>
inline constexpr int kChunks = count == 1   ? 8
                               : count == 4 ? 2
                                            : 1;

__device__ unsigned group_index(const HeadCut& cut) {
  const unsigned groups = kThreads / static_cast<unsigned>(cut.group);  // of a block
  return blockIdx.x * groups + threadIdx.x / static_cast<unsigned>(cut.group);
}
template <int count>
__device__ std::int64_t column_of(const HeadCut& cut, int chunk) {
  return (static_cast<std::int64_t>(chunk) * cut.group + threadIdx.x % cut.group) * count;
}

template <typename T, int count>
__global__ void head_norm_rope_forward_kernel(HeadNormRopeForward<T> arguments, HeadCut cut) {
  constexpr int kKept = kChunks<count>;
  const unsigned item = group_index(cut);
  const bool inside = item < cut.items;  // no lane may leave before the sum
  const std::int64_t row = inside ? item / cut.heads : 0, head = inside ? item % cut.heads : 0;
  const std::int64_t position = arguments.positions.data[row];
  const T* input = arguments.input.row(row) + head * arguments.head_dim;
  float first[kKept][count], second[kKept][count];
  float squares = 0;
#pragma unroll
  for (int chunk = 0; chunk < kKept; ++chunk) {
    const std::int64_t column = column_of<count>(cut, chunk);
    if (!inside || column >= cut.half) continue;
    load(input + column, first[chunk]);
    load(input + cut.half + column, second[chunk]);
#pragma unroll
    for (int i = 0; i < count; ++i) {
      squares += first[chunk][i] * first[chunk][i] + second[chunk][i] * second[chunk][i];
    }
  }
  float r = 1;
  const bool normed = arguments.weight.data != nullptr;
  if (normed) {
    r = 1.0f /
        sqrtf(group_sum(squares, cut.group) / static_cast<float>(arguments.head_dim) + arguments.epsilon);
  }
  if (!inside) return;
  if (arguments.inverse_rms.data != nullptr && threadIdx.x % cut.group == 0) {
    arguments.inverse_rms(row, head) = r;
  }
  T* output = arguments.output.row(row) + head * arguments.head_dim;
#pragma unroll
  for (int chunk = 0; chunk < kKept; ++chunk) {
    const std::int64_t column = column_of<count>(cut, chunk);
    if (column >= cut.half) continue;
    float cosine[count], sine[count];
    load(arguments.rope.cosine.row(position) + column, cosine);
    load(arguments.rope.sine.row(position) + column, sine);
    if (normed) {
      float first_weight[count], second_weight[count];
      load(arguments.weight.data + column, first_weight);
      load(arguments.weight.data + cut.half + column, second_weight);
#pragma unroll
      for (int i = 0; i < count; ++i) {
        first[chunk][i] = first_weight[i] * rounded<T>(first[chunk][i] * r);
        second[chunk][i] = second_weight[i] * rounded<T>(second[chunk][i] * r);
      }
    }
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const float a = first[chunk][i], b = second[chunk][i];
      first[chunk][i] = a * cosine[i] - b * sine[i];
      second[chunk][i] = b * cosine[i] + a * sine[i];
    }
    store(output + column, first[chunk]);
    store(output + cut.half + column, second[chunk]);
  }
}

// The gradient of a lane's columns before the rotation.
template <typename T, int count>
__device__ void rotate_back(const HeadNormRopeBackward<T>& arguments, std::int64_t row, const T* grad_output,
                            std::int64_t half, std::int64_t column, float (&first)[count],
                            float (&second)[count]) {
  const std::int64_t position = arguments.positions.data[row];
  float cosine[count], sine[count];
  load(grad_output + column, first);
  load(grad_output + half + column, second);
  load(arguments.rope.cosine.row(position) + column, cosine);
  load(arguments.rope.sine.row(position) + column, sine);
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const float a = first[i], b = second[i];
    first[i] = a * cosine[i] + b * sine[i];
    second[i] = b * cosine[i] - a * sine[i];
  }
}

// The block's groups lie one after another in `sums`; the first head_dim threads add them in order.
template <int count>
__device__ void store_part(const HeadCut& cut, const float (&first)[kChunks<count>][count],
                           const float (&second)[kChunks<count>][count], float* sums, float* partial) {
  const int group = static_cast<int>(threadIdx.x) / cut.group, groups = kThreads / cut.group;
  const std::int64_t head_dim = 2 * cut.half;
#pragma unroll
  for (int chunk = 0; chunk < kChunks<count>; ++chunk) {
    const std::int64_t column = column_of<count>(cut, chunk);
    if (column >= cut.half) continue;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      sums[group * head_dim + column + i] = first[chunk][i];
      sums[group * head_dim + cut.half + column + i] = second[chunk][i];
    }
  }
  __syncthreads();
  for (std::int64_t column = threadIdx.x; column < head_dim; column += kThreads) {
    float sum = 0;
    for (int other = 0; other < groups; ++other) sum += sums[other * head_dim + column];
    partial[blockIdx.x * head_dim + column] = sum;
  }
}

// Wide, four blocks fit on a processor, so that all parts run at once on a card of 132: x is read again, from cache,
// rather than kept over the sum.
template <typename T, int count>
__global__ void __launch_bounds__(kThreads, count == 8 ? 4 : 2) head_norm_rope_backward_kernel(HeadNormRopeBackward<T> arguments, HeadCut cut,
                                               float* partial) {
  constexpr int kKept = kChunks<count>;
  __shared__ float sums[kThreads * 2 * kKept * count];
  float first_sum[kKept][count] = {}, second_sum[kKept][count] = {};
  const unsigned groups = kThreads / static_cast<unsigned>(cut.group);
  const std::int64_t items = cut.items;
  const auto begin = static_cast<unsigned>(items * blockIdx.x / gridDim.x);
  const auto end = static_cast<unsigned>(items * (blockIdx.x + 1) / gridDim.x);
  for (unsigned base = begin; base < end; base += groups) {
    const unsigned item = base + threadIdx.x / static_cast<unsigned>(cut.group);
    const bool inside = item < end;
    const std::int64_t row = inside ? item / cut.heads : 0, head = inside ? item % cut.heads : 0;
    const T* input = arguments.input.row(row) + head * arguments.head_dim;
    const T* grad_output = arguments.grad_output.row(row) + head * arguments.head_dim;
    const float r = arguments.inverse_rms(row, head);
    float h[kKept][2][count];
    float products = 0;
#pragma unroll
    for (int chunk = 0; chunk < kKept; ++chunk) {
      const std::int64_t column = column_of<count>(cut, chunk);
      if (!inside || column >= cut.half) continue;
      float x[2][count], first_weight[count], second_weight[count];
      load(input + column, x[0]);
      load(input + cut.half + column, x[1]);
      rotate_back(arguments, row, grad_output, cut.half, column, h[chunk][0], h[chunk][1]);
      load(arguments.weight.data + column, first_weight);
      load(arguments.weight.data + cut.half + column, second_weight);
#pragma unroll
      for (int i = 0; i < count; ++i) {
        first_sum[chunk][i] += h[chunk][0][i] * (x[0][i] * r);
        second_sum[chunk][i] += h[chunk][1][i] * (x[1][i] * r);
        h[chunk][0][i] *= first_weight[i];
        h[chunk][1][i] *= second_weight[i];
        products += h[chunk][0][i] * x[0][i] + h[chunk][1][i] * x[1][i];
      }
    }
    const float along = r * r * r * group_sum(products, cut.group) / static_cast<float>(arguments.head_dim);
    asm volatile("" ::: "memory");  // or x would be kept all the same
    T* grad_input = arguments.grad_input.row(row) + head * arguments.head_dim;
#pragma unroll
    for (int chunk = 0; chunk < kKept; ++chunk) {
      const std::int64_t column = column_of<count>(cut, chunk);
      if (!inside || column >= cut.half) continue;
      float x[2][count];
      load(input + column, x[0]);
      load(input + cut.half + column, x[1]);
#pragma unroll
      for (int i = 0; i < count; ++i) {
        h[chunk][0][i] = h[chunk][0][i] * r - x[0][i] * along;
        h[chunk][1][i] = h[chunk][1][i] * r - x[1][i] * along;
      }
      store(grad_input + column, h[chunk][0]);
      store(grad_input + cut.half + column, h[chunk][1]);
    }
  }
  store_part<count>(cut, first_sum, second_sum, sums, partial);
}

// Without a weight: only rotated back.
template <typename T, int count>
__global__ void rope_backward_kernel(HeadNormRopeBackward<T> arguments, HeadCut cut) {
  const unsigned item = group_index(cut);
  if (item >= cut.items) return;
  const std::int64_t row = item / cut.heads, offset = item % cut.heads * arguments.head_dim;
#pragma unroll
  for (int chunk = 0; chunk < kChunks<count>; ++chunk) {
    const std::int64_t column = column_of<count>(cut, chunk);
    if (column >= cut.half) continue;
    float first[count], second[count];
    rotate_back(arguments, row, arguments.grad_output.row(row) + offset, cut.half, column, first, second);
    store(arguments.grad_input.row(row) + offset + column, first);
    store(arguments.grad_input.row(row) + offset + cut.half + column, second);
  }
}

HeadCut cut_heads(std::int64_t rows, std::int64_t columns, std::int64_t head_dim, int count) {
  DRAFTSMITH_CHECK(head_dim % 2 == 0 && head_dim <= kMaxHeadDim && columns % head_dim == 0,
                   "whole heads of even size");
  const std::int64_t heads = columns / head_dim;
  DRAFTSMITH_CHECK(rows * heads < 0x7fffffff, "the heads of all rows are counted in 31 bits");
  HeadCut cut{.heads = static_cast<unsigned>(heads),
              .items = static_cast<unsigned>(rows * heads),
              .half = head_dim / 2,
              .group = 1};
  while (cut.group < static_cast<int>(kWarp) && cut.group * count < cut.half) cut.group *= 2;
  return cut;
}

template <typename T>
bool halves_are_wide(const Matrix<T>& matrix, std::int64_t head_dim) {
  return is_wide(matrix.data, matrix.stride, head_dim / 2);
}
bool table_is_wide(const RopeTable& rope) {
  return is_wide(rope.cosine.data, rope.cosine.stride, rope.cosine.columns) &&
         is_wide(rope.sine.data, rope.sine.stride, rope.sine.columns);
}

std::int64_t groups_of(const HeadCut& cut) { return kThreads / cut.group; }

}  // namespace

template <typename T>
void head_norm_rope_forward(const Stream& stream, const HeadNormRopeForward<T>& arguments) {
  const std::int64_t rows = arguments.input.rows, columns = arguments.input.columns;
  DRAFTSMITH_CHECK(arguments.positions.size == rows && arguments.output.rows == rows &&
                       arguments.output.columns == columns,
                   "a position for each row, an output like the input");
  if (rows == 0) return;
  const auto launch = [&]<int count>() {
    const HeadCut cut = cut_heads(rows, columns, arguments.head_dim, count);
    head_norm_rope_forward_kernel<T, count>
        <<<grid_of(div_ceil(cut.items, groups_of(cut))), kThreads, 0, native(stream)>>>(arguments,
                                                                                               cut);
  };
  const bool wide = halves_are_wide(arguments.input, arguments.head_dim) &&
                    halves_are_wide(arguments.output, arguments.head_dim) && table_is_wide(arguments.rope) &&
                    (!arguments.weight || is_wide(arguments.weight.data, 0, arguments.head_dim / 2));
  wide ? launch.template operator()<kWide<T>>() : launch.template operator()<1>();
  check_launch("head norm and rope");
}

template <typename T>
std::int64_t head_norm_rope_backward_scratch(const Device&, const HeadNormRopeBackward<T>& arguments) {
  return kParts * arguments.head_dim * static_cast<std::int64_t>(sizeof(float));
}

template <typename T>
void head_norm_rope_backward(const Stream& stream, const HeadNormRopeBackward<T>& arguments) {
  const std::int64_t rows = arguments.input.rows, columns = arguments.input.columns;
  const std::int64_t head_dim = arguments.head_dim;
  DRAFTSMITH_CHECK(arguments.positions.size == rows && arguments.grad_input.rows == rows &&
                       arguments.grad_output.rows == rows,
                   "a position for each row, gradients like what they are of");
  DRAFTSMITH_CHECK(
      !arguments.weight || (arguments.weight.size == head_dim && arguments.grad_weight.size == head_dim),
      "a weight for each column of a head");
  if (rows == 0) return;
  const bool normed = static_cast<bool>(arguments.weight);
  const std::int64_t parts = normed ? parts_of(rows * (columns / head_dim)) : 0;
  float* partial = normed ? scratch_array<float>(stream, parts * head_dim) : nullptr;
  const auto launch = [&]<int count>() {
    const HeadCut cut = cut_heads(rows, columns, head_dim, count);
    if (normed) {
      head_norm_rope_backward_kernel<T, count>
          <<<grid_of(parts), kThreads, 0, native(stream)>>>(arguments, cut, partial);
    } else {
      rope_backward_kernel<T, count>
          <<<grid_of(div_ceil(cut.items, groups_of(cut))), kThreads, 0, native(stream)>>>(arguments,
                                                                                                 cut);
    }
  };
  const bool wide = halves_are_wide(arguments.input, head_dim) &&
                    halves_are_wide(arguments.grad_output, head_dim) &&
                    halves_are_wide(arguments.grad_input, head_dim) && table_is_wide(arguments.rope) &&
                    (!normed || is_wide(arguments.weight.data, 0, head_dim / 2));
  wide ? launch.template operator()<kWide<T>>() : launch.template operator()<1>();
  check_launch("the gradient of head norm and rope");
  if (normed) add_parts(stream, partial, parts, head_dim, arguments.grad_weight.data);
}

template void head_norm_rope_forward(const Stream&, const HeadNormRopeForward<float>&);
template void head_norm_rope_forward(const Stream&, const HeadNormRopeForward<bf16>&);
template std::int64_t head_norm_rope_backward_scratch(const Device&, const HeadNormRopeBackward<float>&);
template std::int64_t head_norm_rope_backward_scratch(const Device&, const HeadNormRopeBackward<bf16>&);
template void head_norm_rope_backward(const Stream&, const HeadNormRopeBackward<float>&);
template void head_norm_rope_backward(const Stream&, const HeadNormRopeBackward<bf16>&);

}  // namespace draftsmith::cuda
