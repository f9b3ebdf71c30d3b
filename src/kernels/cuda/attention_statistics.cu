// What every attention backward kernel reads of a query tile: delta = sum(grad_o * o), the softmax's sum in base 2,
// and the intervals, in the layout of attention_tile.cuh. One block of threads per (query tile, kv head).
#include "kernels/cuda/attention_portable.cuh"

namespace draftsmith::cuda {

namespace {

constexpr int kStatisticThreads = 256;

// The sum of products of 8 bf16.
__device__ float dot_products(const uint4& a, const uint4& b, float sum) {
  const std::uint32_t left[4] = {a.x, a.y, a.z, a.w}, right[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sum = fmaf(__uint_as_float(left[i] << 16), __uint_as_float(right[i] << 16), sum);
    sum = fmaf(__uint_as_float(left[i] & 0xffff0000u), __uint_as_float(right[i] & 0xffff0000u), sum);
  }
  return sum;
}

// Volatile, so that the compiler keeps the loads of all rows before their use.
__device__ uint4 load_ahead(const bf16* from) {
  uint4 value;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(from));
  return value;
}

// Half a warp per row, 16 bytes a thread; the loads of all of a thread's rows are in flight together.
template <int head_dim>
__global__ void __launch_bounds__(kStatisticThreads)
    statistics_kernel(AttentionBackward<bf16> arguments, AttentionPlan plan, float* statistics) {
  const AttentionShape& shape = arguments.shape;
  const PackedRows packed{static_cast<std::int32_t>(shape.query_heads / shape.kv_heads),
                          static_cast<std::int32_t>(arguments.query.rows),
                          static_cast<std::int32_t>(blockIdx.y)};
  float* to = statistics + (static_cast<std::int64_t>(blockIdx.y) * plan.capacity.query_tiles + blockIdx.x) *
                               kStatisticFloats;
  constexpr int kRowsAtOnce = kStatisticThreads / 16, kRows = kQueryTileRows / kRowsAtOnce;
  const int lane = threadIdx.x % 16, first_row = threadIdx.x / 16;
  constexpr int kChunks = (head_dim + 127) / 128;
  uint4 output[kRows][kChunks], grad[kRows][kChunks];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const std::int32_t place =
        static_cast<std::int32_t>(blockIdx.x) * kQueryTileRows + first_row + i * kRowsAtOnce;
    const std::int32_t safe = packed.inside(place) ? place : 0;
    const std::int64_t column = static_cast<std::int64_t>(packed.head(safe)) * head_dim + lane * 8;
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const bool inside = chunk * 128 + lane * 8 < head_dim;
      const std::int64_t at = column + (inside ? chunk * 128 : -lane * 8);
      output[i][chunk] = load_ahead(arguments.output.row(packed.token(safe)) + at);
      grad[i][chunk] = load_ahead(arguments.grad_output.row(packed.token(safe)) + at);
      if (!inside) grad[i][chunk] = {};
    }
  }
  float delta[kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    delta[i] = 0;
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk)
      delta[i] = dot_products(output[i][chunk], grad[i][chunk], delta[i]);
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int row = first_row + i * kRowsAtOnce;
    const std::int32_t place = static_cast<std::int32_t>(blockIdx.x) * kQueryTileRows + row;
#pragma unroll
    for (int step = 8; step > 0; step /= 2) delta[i] += __shfl_xor_sync(0xffffffffu, delta[i], step);
    if (lane != 0) continue;
    const RowVisibility seen = row_visibility(shape, arguments.intervals, packed, place);
    const bool any = seen.own.begin < seen.own.end || seen.context.begin < seen.context.end;
    to[statistic_place(Statistic::log2_sum_exp) + row] =
        any ? arguments.log_sum_exp(packed.token(place), packed.head(place)) * kLog2E : INFINITY;
    to[statistic_place(Statistic::delta) + row] = any ? delta[i] : 0.0f;
    to[statistic_place(Statistic::context_begin) + row] = __int_as_float(seen.context.begin);
    to[statistic_place(Statistic::context_end) + row] = __int_as_float(seen.context.end);
    to[statistic_place(Statistic::own_begin) + row] = __int_as_float(seen.own.begin);
    to[statistic_place(Statistic::own_end) + row] = __int_as_float(seen.own.end);
  }
}

}  // namespace

void launch_attention_statistics(const AttentionBackward<bf16>& arguments, const AttentionPlan& plan,
                                 const AttentionGradientScratch& scratch, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(plan.capacity.query_tiles),
                  static_cast<unsigned>(arguments.shape.kv_heads));
  with_head_dim(arguments.shape.head_dim, [&](auto head_dim) {
    statistics_kernel<head_dim>
        <<<grid, kStatisticThreads, 0, stream>>>(arguments, plan, scratch.statistics.data);
  });
  check_launch("attention statistics");
}

}  // namespace draftsmith::cuda
