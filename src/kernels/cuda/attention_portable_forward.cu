// Portable attention forward: one block of 4 warps per (64 packed rows, kv head); a warp owns 16 rows. Keys
// and values pass through two stages of asynchronous copies.
#include "kernels/cuda/attention_portable.cuh"

namespace draftsmith::cuda {

namespace {

// Wide heads take fewer keys at a time: 99 KB of shared memory is what the smallest of these cards has.
template <int head_dim>
inline constexpr int kForwardKeys = head_dim > 128 ? 32 : 64;

template <int head_dim>
struct ForwardLayout {
  using Tile = PaddedTile<head_dim>;
  static constexpr int kQueryBytes = Tile::bytes(kQueryTileRows);
  static constexpr int kKeyBytes = Tile::bytes(kForwardKeys<head_dim>);
  static constexpr int kBytes = kQueryBytes + 4 * kKeyBytes;

  std::uint32_t base;
  __device__ Tile query() const { return {base}; }
  __device__ Tile key(int stage) const { return {base + kQueryBytes + 2 * stage * kKeyBytes}; }
  __device__ Tile value(int stage) const { return {base + kQueryBytes + (2 * stage + 1) * kKeyBytes}; }
};

// Running softmax of the two rows of a thread, in base 2.
struct RunningRows {
  float maximum[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};
};

template <int tiles, int column_tiles>
__device__ void soften(float (&scores)[tiles][4], float (&output)[column_tiles][4], RunningRows& rows,
                       float log2_scale) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float maximum = rows.maximum[half];
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) {
      maximum = fmaxf(maximum, fmaxf(scores[tile][2 * half], scores[tile][2 * half + 1]));
    }
    maximum = quad_max(maximum);
    const float offset = maximum == -INFINITY ? 0.0f : maximum * log2_scale;
    // Not contracted: exactly 1 when the maximum stays, so that tiles a row does not see change no bit of it.
    const float factor = exp2_fast(__fmul_rn(rows.maximum[half], log2_scale) - offset);
    float sum = 0;
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) {
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        scores[tile][i] = exp2_fast(fmaf(scores[tile][i], log2_scale, -offset));
        sum += scores[tile][i];
      }
    }
    rows.maximum[half] = maximum;
    rows.sum[half] = rows.sum[half] * factor + sum;
#pragma unroll
    for (int tile = 0; tile < column_tiles; ++tile) {
      output[tile][2 * half] *= factor;
      output[tile][2 * half + 1] *= factor;
    }
  }
}

// Divides a thread's two rows by their sums. A row of an invalid block, which is computed as if it saw the tiles
// that all others see, becomes 0 whatever sign its sums have.
template <int head_dim>
__device__ void store_output(const AttentionForward<bf16>& arguments, const PackedRows& packed,
                             const std::int32_t (&rows)[2], float (&output)[head_dim / 8][4],
                             const RunningRows& running) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float sum = quad_sum(running.sum[half]);
    if (!packed.inside(rows[half])) continue;
    const std::int32_t token = packed.token(rows[half]), head = packed.head(rows[half]);
    const bool seen = arguments.intervals.end.data[token] >= 0 && !(sum == 0);  // a NaN is passed on
    if (!seen) {
#pragma unroll
      for (int i = 0; i < head_dim / 8; ++i) output[i][2 * half] = output[i][2 * half + 1] = 0;
    }
    store_row(arguments.output.row(token) + static_cast<std::int64_t>(head) * head_dim, output, half,
              seen ? 1.0f / sum : 1.0f);
    if (threadIdx.x % 4 == 0 && arguments.log_sum_exp.data != nullptr) {
      arguments.log_sum_exp(token, head) =
          seen ? running.maximum[half] * arguments.shape.scale + logf(sum) : -INFINITY;
    }
  }
}

template <int head_dim>
__global__ void __launch_bounds__(kPortableThreads)
    portable_forward_kernel(AttentionForward<bf16> arguments, AttentionPlan plan) {
  constexpr int kKeys = kForwardKeys<head_dim>;
  extern __shared__ __align__(16) unsigned char shared[];
  const ForwardLayout<head_dim> layout{shared_address(shared)};
  const auto tile = static_cast<std::int32_t>(gridDim.x - 1 - blockIdx.x);  // later rows see more
  const AttentionShape& shape = arguments.shape;
  const PackedRows packed{static_cast<std::int32_t>(shape.query_heads / shape.kv_heads),
                          static_cast<std::int32_t>(arguments.query.rows),
                          static_cast<std::int32_t>(blockIdx.y)};
  const std::int32_t first_row = tile * kQueryTileRows;
  const QueryTile bounds = plan.tiles.data[tile];
  const KeyWalk<kKeys> walk(bounds);
  const KeyOperands from{arguments.context_key, arguments.context_value, arguments.block_key,
                         arguments.block_value, static_cast<std::int64_t>(blockIdx.y) * head_dim};
  layout.query().template load_packed<kQueryTileRows, kPortableThreads>(arguments.query, packed,
                                                                        Divisor(packed.heads), first_row);
  load_step(from, walk, 0, layout.key(0), layout.value(0));

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const std::int32_t rows[2] = {first_row + warp * 16 + lane / 4, first_row + warp * 16 + lane / 4 + 8};
  const RowVisibility seen[2] = {row_visibility(shape, arguments.intervals, packed, rows[0]),
                                 row_visibility(shape, arguments.intervals, packed, rows[1])};
  RunningRows running;
  float output[head_dim / 8][4] = {};
  for (std::int32_t step = 0; step < walk.steps(); ++step) {
    const int stage = step % 2;
    load_step(from, walk, step + 1, layout.key(stage ^ 1), layout.value(stage ^ 1));
    wait_copies<1>();
    __syncthreads();
    float scores[kKeys / 8][4];
    multiply_rows<head_dim, kKeys / 8>(scores, layout.query(), warp * 16, layout.key(stage), 0);
    const bool own = walk.is_own(step);
    const std::int32_t first = walk.first_key(step);
    const RowInterval intervals[2] = {seen[0].of(own), seen[1].of(own)};
    if (!(own ? bounds.own.sees_all(first, kKeys) : bounds.context.sees_all(first, kKeys))) {
#pragma unroll
      for (int i = 0; i < kKeys / 2; ++i) {
        const RowInterval& interval = intervals[i / 2 % 2];
        const std::int32_t key = first + i / 4 * 8 + lane % 4 * 2 + i % 2;
        if (key < interval.begin || key >= interval.end) scores[i / 4][i % 4] = -INFINITY;
      }
    }
    soften(scores, output, running, shape.scale * kLog2E);
    add_products<head_dim>(output, scores, layout.value(stage), 0, 0);
    __syncthreads();
  }
  store_output<head_dim>(arguments, packed, rows, output, running);
}

}  // namespace

void launch_portable_forward(const AttentionForward<bf16>& arguments, const AttentionPlan& plan,
                             cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(plan.capacity.query_tiles),
                  static_cast<unsigned>(arguments.shape.kv_heads));
  with_head_dim(arguments.shape.head_dim, [&](auto head_dim) {
    portable_forward_kernel<head_dim>
        <<<grid, kPortableThreads, ForwardLayout<head_dim>::kBytes, stream>>>(arguments, plan);
  });
  check_launch("portable attention forward");
}

void prepare_portable_forward() {
  for (const std::int64_t size : {64, 96, 128, 256}) {
    with_head_dim(size, [](auto head_dim) {
      allow_shared_memory(portable_forward_kernel<head_dim>, ForwardLayout<head_dim>::kBytes);
    });
  }
}

}  // namespace draftsmith::cuda
