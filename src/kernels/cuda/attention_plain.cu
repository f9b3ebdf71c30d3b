// The plain path of attention, read straight off the contract: any head_dim up to 256, no tensor cores. A
// warp does one query row and head, or the gradients of one key row and head; it walks keys 32 at a time from
// the beginning of the row's own interval, the own block first, so a row's bits depend on nothing else.
// Gradients of keys and values are sums over query rows in ascending order, head by head, without atomics.
#include <limits>

#include "kernels/attention.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/vector.cuh"

namespace draftsmith::cuda {

namespace {

constexpr int kWarps = 4;
constexpr int kMaxHeadDim = 256;
constexpr int kColumns = kMaxHeadDim / 32;  // of a lane: lane, lane + 32, …
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Rows [first, last) of keys and values that lie in one matrix.
template <typename T>
struct KeyRange {
  Matrix<const T> key, value;
  std::int64_t first, last;
};

__device__ std::int64_t warp_item() {
  return static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
}

template <typename T>
__device__ float dot(const float* vector, const T* row, std::int64_t head_dim) {
  float sum = 0;
  for (std::int64_t d = 0; d < head_dim; ++d) sum += vector[d] * to_float(row[d]);
  return sum;
}

// The rows of its own block that a valid row sees.
__device__ void own_block(const AttentionShape& shape, std::int64_t row, std::int64_t& first,
                          std::int64_t& last) {
  first = row - row % shape.block_size;
  last = shape.causal_in_block ? row + 1 : first + shape.block_size;
}

template <typename T>
__device__ KeyRange<T> own_range(const AttentionShape& shape, const Matrix<const T>& key,
                                 const Matrix<const T>& value, std::int64_t row) {
  KeyRange<T> range{key, value, 0, 0};
  own_block(shape, row, range.first, range.last);
  return range;
}

struct Softmax {
  float maximum = -kInfinity;
  float sum = 0;
  float output[kColumns] = {};
};

template <typename T>
__device__ void attend(const float* query, const KeyRange<T>& keys, std::int64_t offset,
                       std::int64_t head_dim, Softmax& state) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (std::int64_t first = keys.first; first < keys.last; first += 32) {
    const std::int64_t mine = first + lane;
    const bool seen = mine < keys.last;
    const float score = seen ? dot(query, keys.key.row(mine) + offset, head_dim) : -kInfinity;
    float maximum = score;
    for (int step = 16; step > 0; step /= 2) {
      maximum = fmaxf(maximum, __shfl_xor_sync(kAllLanes, maximum, step));
    }
    maximum = fmaxf(maximum, state.maximum);
    const float p = seen ? expf(score - maximum) : 0.0f;
    const float factor = state.maximum == -kInfinity ? 0.0f : expf(state.maximum - maximum);
    state.maximum = maximum;
    state.sum = state.sum * factor + group_sum(p, 32);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) state.output[c] *= factor;
    const std::int64_t count = keys.last - first < 32 ? keys.last - first : 32;
    for (int key = 0; key < count; ++key) {
      const float weight = __shfl_sync(kAllLanes, p, key);
      const T* value = keys.value.row(first + key) + offset;
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        if (lane + 32 * c < head_dim) state.output[c] += weight * to_float(value[lane + 32 * c]);
      }
    }
  }
}

template <typename T>
__global__ void plain_forward_kernel(AttentionForward<T> arguments) {
  __shared__ float queries[kWarps][kMaxHeadDim];
  const AttentionShape& shape = arguments.shape;
  const std::int64_t item = warp_item();
  if (item >= arguments.query.rows * shape.query_heads) return;
  const std::int64_t row = item / shape.query_heads, head = item % shape.query_heads;
  const std::int64_t head_dim = shape.head_dim;
  const std::int64_t offset = head / (shape.query_heads / shape.kv_heads) * head_dim;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float* query = queries[threadIdx.x / 32];
  for (std::int64_t d = lane; d < head_dim; d += 32) {
    query[d] = to_float(arguments.query(row, head * head_dim + d)) * shape.scale;
  }
  __syncwarp();
  const std::int64_t begin = arguments.intervals.begin.data[row], end = arguments.intervals.end.data[row];
  Softmax state;
  if (shape.block_size > 0 && end >= 0) {
    attend(query, own_range(shape, arguments.block_key, arguments.block_value, row), offset, head_dim, state);
  }
  attend(query, KeyRange<T>{arguments.context_key, arguments.context_value, begin, end}, offset, head_dim,
         state);
  const float factor = state.sum > 0 ? 1.0f / state.sum : 0.0f;
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    if (lane + 32 * c < head_dim) {
      arguments.output(row, head * head_dim + lane + 32 * c) = to_stored<T>(state.output[c] * factor);
    }
  }
  if (lane == 0 && arguments.log_sum_exp.data != nullptr) {
    arguments.log_sum_exp(row, head) = state.maximum + logf(state.sum);
  }
}

// What a warp of backward holds of one query row and head.
struct QueryRow {
  float* query;        // [head_dim], times scale
  float* grad_output;  // [head_dim]
  float log_sum_exp, delta;
};

template <typename T>
__device__ void load_query(const AttentionBackward<T>& arguments, std::int64_t row, std::int64_t head,
                           QueryRow& at) {
  const std::int64_t head_dim = arguments.shape.head_dim;
  __syncwarp();  // the lanes are done with what it held before
  for (std::int64_t d = threadIdx.x % 32; d < head_dim; d += 32) {
    at.query[d] = to_float(arguments.query(row, head * head_dim + d)) * arguments.shape.scale;
    at.grad_output[d] = to_float(arguments.grad_output(row, head * head_dim + d));
  }
  at.log_sum_exp = arguments.log_sum_exp(row, head);
  at.delta = arguments.delta(row, head);
  __syncwarp();
}

template <typename T>
__device__ void differentiate_query(const QueryRow& at, const KeyRange<T>& keys, std::int64_t offset,
                                    std::int64_t head_dim, float (&grad_query)[kColumns]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (std::int64_t first = keys.first; first < keys.last; first += 32) {
    const std::int64_t mine = first + lane;
    float grad_score = 0;
    if (mine < keys.last) {
      const float p = expf(dot(at.query, keys.key.row(mine) + offset, head_dim) - at.log_sum_exp);
      grad_score = p * (dot(at.grad_output, keys.value.row(mine) + offset, head_dim) - at.delta);
    }
    const std::int64_t count = keys.last - first < 32 ? keys.last - first : 32;
    for (int key = 0; key < count; ++key) {
      const float weight = __shfl_sync(kAllLanes, grad_score, key);
      const T* row = keys.key.row(first + key) + offset;
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        if (lane + 32 * c < head_dim) grad_query[c] += weight * to_float(row[lane + 32 * c]);
      }
    }
  }
}

template <typename T>
__global__ void plain_query_gradient_kernel(AttentionBackward<T> arguments) {
  __shared__ float rows[kWarps][2][kMaxHeadDim];
  const AttentionShape& shape = arguments.shape;
  const std::int64_t item = warp_item();
  if (item >= arguments.query.rows * shape.query_heads) return;
  const std::int64_t row = item / shape.query_heads, head = item % shape.query_heads;
  const std::int64_t head_dim = shape.head_dim;
  const std::int64_t offset = head / (shape.query_heads / shape.kv_heads) * head_dim;
  QueryRow at{rows[threadIdx.x / 32][0], rows[threadIdx.x / 32][1], 0, 0};
  load_query(arguments, row, head, at);
  const std::int64_t begin = arguments.intervals.begin.data[row], end = arguments.intervals.end.data[row];
  float grad_query[kColumns] = {};
  if (shape.block_size > 0 && end >= 0) {
    differentiate_query(at, own_range(shape, arguments.block_key, arguments.block_value, row), offset,
                        head_dim, grad_query);
  }
  differentiate_query(at, KeyRange<T>{arguments.context_key, arguments.context_value, begin, end}, offset,
                      head_dim, grad_query);
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    if (lane + 32 * c < head_dim) {
      arguments.grad_query(row, head * head_dim + lane + 32 * c) = to_stored<T>(grad_query[c] * shape.scale);
    }
  }
}

// One key row and the gradients that it gathers; a lane holds columns lane, lane + 32, …
struct KeyGradient {
  float key[kColumns], value[kColumns], grad_key[kColumns], grad_value[kColumns];
};

// Adds what query row `row` gives to the key row, from every head of the key's group.
template <typename T>
__device__ void add_query_row(const AttentionBackward<T>& arguments, std::int64_t row, std::int64_t kv_head,
                              QueryRow& at, KeyGradient& gradient) {
  const AttentionShape& shape = arguments.shape;
  const std::int64_t heads = shape.query_heads / shape.kv_heads;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (std::int64_t head = kv_head * heads; head < (kv_head + 1) * heads; ++head) {
    load_query(arguments, row, head, at);
    float score = 0, grad_p = 0;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      if (lane + 32 * c >= shape.head_dim) continue;
      score += at.query[lane + 32 * c] * gradient.key[c];
      grad_p += at.grad_output[lane + 32 * c] * gradient.value[c];
    }
    const float p = expf(group_sum(score, 32) - at.log_sum_exp);
    const float grad_score = p * (group_sum(grad_p, 32) - at.delta);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      if (lane + 32 * c >= shape.head_dim) continue;
      gradient.grad_value[c] += p * at.grad_output[lane + 32 * c];
      gradient.grad_key[c] += grad_score * at.query[lane + 32 * c];
    }
  }
}

// The gradients of one row of keys and values: of the context when `in_block` is false, of a draft block
// otherwise.
template <typename T, bool in_block>
__global__ void plain_key_gradient_kernel(AttentionBackward<T> arguments) {
  __shared__ float rows[kWarps][2][kMaxHeadDim];
  const AttentionShape& shape = arguments.shape;
  const Matrix<const T>& keys = in_block ? arguments.block_key : arguments.context_key;
  const Matrix<const T>& values = in_block ? arguments.block_value : arguments.context_value;
  const std::int64_t item = warp_item();
  if (item >= keys.rows * shape.kv_heads) return;
  const std::int64_t key_row = item / shape.kv_heads, kv_head = item % shape.kv_heads;
  const std::int64_t offset = kv_head * shape.head_dim;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  QueryRow at{rows[threadIdx.x / 32][0], rows[threadIdx.x / 32][1], 0, 0};
  KeyGradient gradient{};
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    if (lane + 32 * c >= shape.head_dim) continue;
    gradient.key[c] = to_float(keys(key_row, offset + lane + 32 * c));
    gradient.value[c] = to_float(values(key_row, offset + lane + 32 * c));
  }
  std::int64_t first = 0, last = arguments.query.rows;
  if (in_block) {
    first = key_row - key_row % shape.block_size;
    last = first + shape.block_size;
  }
  for (std::int64_t base = first; base < last; base += 32) {
    const std::int64_t row = base + lane;
    bool sees = false;
    if (row < last) {
      const std::int64_t end = arguments.intervals.end.data[row];
      sees = in_block ? end >= 0 && (!shape.causal_in_block || row >= key_row)
                      : key_row >= arguments.intervals.begin.data[row] && key_row < end;
    }
    for (unsigned seeing = __ballot_sync(kAllLanes, sees); seeing != 0; seeing &= seeing - 1) {
      add_query_row(arguments, base + __ffs(static_cast<int>(seeing)) - 1, kv_head, at, gradient);
    }
  }
  const Matrix<T>& grad_key = in_block ? arguments.grad_block_key : arguments.grad_context_key;
  const Matrix<T>& grad_value = in_block ? arguments.grad_block_value : arguments.grad_context_value;
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    if (lane + 32 * c >= shape.head_dim) continue;
    grad_key(key_row, offset + lane + 32 * c) = to_stored<T>(gradient.grad_key[c]);
    grad_value(key_row, offset + lane + 32 * c) = to_stored<T>(gradient.grad_value[c]);
  }
}

// delta = sum(grad_output * output), by row and head.
template <typename T>
__global__ void plain_delta_kernel(AttentionBackward<T> arguments) {
  const std::int64_t item = warp_item(), heads = arguments.shape.query_heads;
  if (item >= arguments.query.rows * heads) return;
  const std::int64_t row = item / heads, offset = item % heads * arguments.shape.head_dim;
  float sum = 0;
  for (std::int64_t d = threadIdx.x % 32; d < arguments.shape.head_dim; d += 32) {
    sum += to_float(arguments.output(row, offset + d)) * to_float(arguments.grad_output(row, offset + d));
  }
  sum = group_sum(sum, 32);
  if (threadIdx.x % 32 == 0) arguments.delta(row, item % heads) = sum;
}

template <typename Arguments>
void check_attention(const Arguments& arguments) {
  const AttentionShape& shape = arguments.shape;
  const std::int64_t rows = arguments.query.rows;
  DRAFTSMITH_CHECK(shape.head_dim >= 1 && shape.head_dim <= kMaxHeadDim, "head_dim fits the registers");
  DRAFTSMITH_CHECK(shape.kv_heads > 0 && shape.query_heads % shape.kv_heads == 0,
                   "a key head serves a whole number of query heads");
  DRAFTSMITH_CHECK(arguments.intervals.begin.size == rows && arguments.intervals.end.size == rows &&
                       arguments.query.columns == shape.query_heads * shape.head_dim,
                   "an interval for each query row, all its heads side by side");
  DRAFTSMITH_CHECK(
      shape.block_size == 0 || (rows % shape.block_size == 0 && arguments.block_key.rows == rows),
      "whole blocks");
}

template <typename Kernel, typename Arguments>
void launch_warps(const Stream& stream, std::int64_t items, Kernel kernel, const Arguments& arguments) {
  if (items == 0) return;
  kernel<<<grid_of(div_ceil(items, kWarps)), kWarps * kWarp, 0, native(stream)>>>(arguments);
  check_launch("plain attention");
}

}  // namespace

template <typename T>
void plain_attention_forward(const Stream& stream, const AttentionForward<T>& arguments) {
  check_attention(arguments);
  launch_warps(stream, arguments.query.rows * arguments.shape.query_heads, plain_forward_kernel<T>,
               arguments);
}

template <typename T>
void plain_attention_backward(const Stream& stream, const AttentionBackward<T>& arguments) {
  check_attention(arguments);
  const AttentionShape& shape = arguments.shape;
  const std::int64_t query_items = arguments.query.rows * shape.query_heads;
  launch_warps(stream, query_items, plain_delta_kernel<T>, arguments);
  launch_warps(stream, query_items, plain_query_gradient_kernel<T>, arguments);
  launch_warps(stream, arguments.context_key.rows * shape.kv_heads, plain_key_gradient_kernel<T, false>,
               arguments);
  if (shape.block_size == 0) return;
  launch_warps(stream, arguments.block_key.rows * shape.kv_heads, plain_key_gradient_kernel<T, true>,
               arguments);
}

template void plain_attention_forward(const Stream&, const AttentionForward<float>&);
template void plain_attention_forward(const Stream&, const AttentionForward<bf16>&);
template void plain_attention_backward(const Stream&, const AttentionBackward<float>&);
template void plain_attention_backward(const Stream&, const AttentionBackward<bf16>&);

}  // namespace draftsmith::cuda
