// Portable attention backward, deterministic by recomputation: no sum crosses a block of threads.
//   key gradients   one block per (64 keys, kv head), of the context or of the draft blocks; its warps own 16
//                   keys each and walk over the packed rows that see them, 32 at a time:
//                     p^T = 2^(k q^T c - log2 sum), ds^T = p^T (v grad_o^T - delta), dv += p^T grad_o, dk +=
//                     ds^T q
//   query gradient  one block per (64 packed rows, kv head); its warps own 16 rows and walk over the keys
#include "kernels/cuda/attention_portable.cuh"

namespace draftsmith::cuda {

namespace {

constexpr int kStepRows = 32;  // packed rows of a step of the key gradients

// 64 keys, or 32 with the columns of their gradients split between two warps, where head_dim is too wide for
// the registers of one. Wide heads also take one stage instead of two.
template <int head_dim>
struct KeyGradientLayout {
  using Tile = PaddedTile<head_dim>;
  static constexpr int kSplit = head_dim > 128 ? 2 : 1;
  static constexpr int kKeys = 64 / kSplit;
  static constexpr int kColumns = head_dim / kSplit;
  static constexpr int kStages = head_dim > 128 ? 1 : 2;
  static constexpr int kKeyBytes = Tile::bytes(kKeys);
  static constexpr int kRowBytes = Tile::bytes(kStepRows);
  static constexpr int kStatisticsAt = 2 * kKeyBytes + 2 * kStages * kRowBytes;
  static constexpr int kStatisticStageBytes = static_cast<int>(Statistic::count) * kStepRows * 4;
  static constexpr int kBytes = kStatisticsAt + kStages * kStatisticStageBytes;

  std::uint32_t base;
  __device__ std::uint32_t statistics_address(int stage) const {
    return base + kStatisticsAt + stage * kStatisticStageBytes;
  }
  __device__ Tile key() const { return {base}; }
  __device__ Tile value() const { return {base + kKeyBytes}; }
  __device__ Tile query(int stage) const { return {base + 2 * kKeyBytes + 2 * stage * kRowBytes}; }
  __device__ Tile grad_output(int stage) const {
    return {base + 2 * kKeyBytes + (2 * stage + 1) * kRowBytes};
  }
};

// The statistics of kStepRows packed rows from `row` on, [statistics, kStepRows].
__device__ void load_statistics(std::uint32_t to, const float* of_head, std::int32_t row) {
  constexpr int kChunks = kStepRows / 4, kAll = static_cast<int>(Statistic::count) * kChunks;
  if (threadIdx.x >= kAll) return;
  const int which = threadIdx.x / kChunks, chunk = threadIdx.x % kChunks;
  const float* from = of_head + static_cast<std::int64_t>(row / kQueryTileRows) * kStatisticFloats +
                      which * kQueryTileRows + row % kQueryTileRows + chunk * 4;
  copy_async(to + threadIdx.x * 16, from, true);
}

// The steps of kStepRows packed rows from the first to the last tile that sees any of the keys. All threads ask.
__device__ TileRange visible_steps(const AttentionPlan& plan, bool own, std::int32_t first,
                                   std::int32_t keys) {
  __shared__ TileRange range;
  if (threadIdx.x == 0) range = {plan.capacity.query_tiles, 0};
  __syncthreads();
  for (std::int32_t i = threadIdx.x; i < plan.capacity.query_tiles; i += kPortableThreads) {
    const QueryTile& tile = plan.tiles.data[i];
    if (!(own ? tile.own : tile.context).sees_any(first, keys)) continue;
    atomicMin(&range.first, i);
    atomicMax(&range.last, i + 1);
  }
  __syncthreads();
  constexpr std::int32_t kPerTile = kQueryTileRows / kStepRows;
  return {range.first * kPerTile, range.last * kPerTile};
}

// p^T and ds^T of a step from its two products, both [16 keys, kStepRows]; of_step: [statistics, kStepRows].
__device__ void differentiate(float (&p)[kStepRows / 8][4], float (&ds)[kStepRows / 8][4],
                              const float* of_step, bool own, std::int32_t first_key, float log2_scale) {
  const auto of = [&](Statistic which, int row) {
    return of_step[static_cast<int>(which) * kStepRows + row];
  };
  const Statistic begin = own ? Statistic::own_begin : Statistic::context_begin;
  const Statistic end = own ? Statistic::own_end : Statistic::context_end;
#pragma unroll
  for (int i = 0; i < kStepRows / 2; ++i) {
    const int row = i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
    const std::int32_t key = first_key + i / 2 % 2 * 8;
    const bool visible = key >= __float_as_int(of(begin, row)) && key < __float_as_int(of(end, row));
    const float exponent = fmaf(p[i / 4][i % 4], log2_scale, -of(Statistic::log2_sum_exp, row));
    p[i / 4][i % 4] = visible ? exp2_fast(exponent) : 0.0f;
    ds[i / 4][i % 4] = p[i / 4][i % 4] * (ds[i / 4][i % 4] - of(Statistic::delta, row));
  }
}

// One step's rows: packed rows of queries and grad_output, and their statistics.
template <int head_dim>
__device__ void load_rows(const KeyGradientLayout<head_dim>& layout, int stage,
                          const AttentionBackward<bf16>& arguments, const PackedRows& packed,
                          const Divisor& heads, const float* of_head, std::int32_t row) {
  layout.query(stage).template load_packed<kStepRows, kPortableThreads>(arguments.query, packed, heads, row);
  layout.grad_output(stage).template load_packed<kStepRows, kPortableThreads>(arguments.grad_output, packed,
                                                                              heads, row);
  load_statistics(layout.statistics_address(stage), of_head, row);
}

template <int head_dim>
__global__ void __launch_bounds__(kPortableThreads)
    portable_key_gradient_kernel(AttentionBackward<bf16> arguments, AttentionPlan plan,
                                 const float* statistics, std::int32_t context_blocks) {
  using Layout = KeyGradientLayout<head_dim>;
  constexpr int kStages = Layout::kStages;
  extern __shared__ __align__(16) unsigned char shared[];
  const Layout layout{shared_address(shared)};
  const AttentionShape& shape = arguments.shape;
  const PackedRows packed{static_cast<std::int32_t>(shape.query_heads / shape.kv_heads),
                          static_cast<std::int32_t>(arguments.query.rows),
                          static_cast<std::int32_t>(blockIdx.y)};
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.y) * head_dim;
  const bool own = static_cast<std::int32_t>(blockIdx.x) >= context_blocks;
  const std::int32_t first_key =
      (static_cast<std::int32_t>(blockIdx.x) - (own ? context_blocks : 0)) * Layout::kKeys;
  const Matrix<const bf16>& keys = own ? arguments.block_key : arguments.context_key;
  const Matrix<const bf16>& values = own ? arguments.block_value : arguments.context_value;
  const auto limit = static_cast<std::int32_t>(keys.rows);
  layout.key().template load<Layout::kKeys, kPortableThreads>(keys, first_key, limit, column);
  layout.value().template load<Layout::kKeys, kPortableThreads>(values, first_key, limit, column);

  const TileRange steps = visible_steps(plan, own, first_key, Layout::kKeys);
  const Divisor heads(packed.heads);
  const float* of_head =
      statistics + static_cast<std::int64_t>(blockIdx.y) * plan.capacity.query_tiles * kStatisticFloats;
  const auto load = [&](std::int32_t step, int stage) {
    if (step < steps.last) load_rows(layout, stage, arguments, packed, heads, of_head, step * kStepRows);
    commit_copies();
  };
  const int warp = threadIdx.x / 32;
  const int key_row = warp / Layout::kSplit * 16, first_column = warp % Layout::kSplit * Layout::kColumns;
  const auto my_key = static_cast<std::int32_t>(first_key + key_row + threadIdx.x % 32 / 4);
  float grad_key[Layout::kColumns / 8][4] = {}, grad_value[Layout::kColumns / 8][4] = {};
  if (kStages == 2) load(steps.first, 0);
  for (std::int32_t step = steps.first; step < steps.last; ++step) {
    const int stage = kStages == 2 ? (step - steps.first) % 2 : 0;
    load(step + kStages - 1, stage ^ (kStages - 1));
    wait_copies<kStages - 1>();
    __syncthreads();
    float p[kStepRows / 8][4], ds[kStepRows / 8][4];
    multiply_rows<head_dim, kStepRows / 8>(p, layout.key(), key_row, layout.query(stage), 0);
    multiply_rows<head_dim, kStepRows / 8>(ds, layout.value(), key_row, layout.grad_output(stage), 0);
    differentiate(p, ds,
                  reinterpret_cast<const float*>(shared + layout.statistics_address(stage) - layout.base),
                  own, my_key, shape.scale * kLog2E);
    add_products<head_dim>(grad_value, p, layout.grad_output(stage), 0, first_column);
    add_products<head_dim>(grad_key, ds, layout.query(stage), 0, first_column);
    __syncthreads();
  }
  const Matrix<bf16>& key_to = own ? arguments.grad_block_key : arguments.grad_context_key;
  const Matrix<bf16>& value_to = own ? arguments.grad_block_value : arguments.grad_context_value;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (my_key + 8 * half >= limit) continue;
    store_row(key_to.row(my_key + 8 * half) + column + first_column, grad_key, half, shape.scale);
    store_row(value_to.row(my_key + 8 * half) + column + first_column, grad_value, half, 1.0f);
  }
}

template <int head_dim>
struct QueryGradientLayout {
  using Tile = PaddedTile<head_dim>;
  static constexpr int kKeys = 32;
  static constexpr int kStages = head_dim > 128 ? 1 : 2;
  static constexpr int kRowBytes = Tile::bytes(kQueryTileRows);
  static constexpr int kKeyBytes = Tile::bytes(kKeys);
  static constexpr int kBytes = 2 * kRowBytes + 2 * kStages * kKeyBytes;

  std::uint32_t base;
  __device__ Tile query() const { return {base}; }
  __device__ Tile grad_output() const { return {base + kRowBytes}; }
  __device__ Tile key(int stage) const { return {base + 2 * kRowBytes + 2 * stage * kKeyBytes}; }
  __device__ Tile value(int stage) const { return {base + 2 * kRowBytes + (2 * stage + 1) * kKeyBytes}; }
};

// What a thread of the query gradient knows of its two rows.
struct GradientRows {
  std::int32_t place[2];  // packed rows
  RowVisibility seen[2];
  float log2_sum_exp[2], delta[2];

  __device__ GradientRows(const AttentionBackward<bf16>& arguments, const PackedRows& packed,
                          const float* of_tile, std::int32_t first_row) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const auto row = static_cast<std::int32_t>(threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + 8 * half);
      place[half] = first_row + row;
      seen[half] = row_visibility(arguments.shape, arguments.intervals, packed, place[half]);
      log2_sum_exp[half] = of_tile[statistic_place(Statistic::log2_sum_exp) + row];
      delta[half] = of_tile[statistic_place(Statistic::delta) + row];
    }
  }
};

// ds from the products q k^T and grad_o v^T, which becomes it.
template <int tiles>
__device__ void differentiate(const float (&scores)[tiles][4], float (&ds)[tiles][4],
                              const GradientRows& rows, bool own, std::int32_t first_key, float log2_scale) {
  const RowInterval intervals[2] = {rows.seen[0].of(own), rows.seen[1].of(own)};
#pragma unroll
  for (int i = 0; i < tiles * 4; ++i) {
    const int half = i / 2 % 2;
    const auto key = static_cast<std::int32_t>(first_key + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2);
    const bool visible = key >= intervals[half].begin && key < intervals[half].end;
    const float exponent = fmaf(scores[i / 4][i % 4], log2_scale, -rows.log2_sum_exp[half]);
    ds[i / 4][i % 4] = visible ? exp2_fast(exponent) * (ds[i / 4][i % 4] - rows.delta[half]) : 0.0f;
  }
}

// skip_if_stored: key slices that fit grad_scores, or 0 to run always.
template <int head_dim>
__global__ void __launch_bounds__(kPortableThreads)
    portable_query_gradient_kernel(AttentionBackward<bf16> arguments, AttentionPlan plan,
                                   const float* statistics, std::int64_t skip_if_stored) {
  using Layout = QueryGradientLayout<head_dim>;
  constexpr int kKeys = Layout::kKeys, kStages = Layout::kStages;
  if (skip_if_stored > 0 && heads_in_round(skip_if_stored, plan.counts.data->stored_slices, 1) > 0) return;
  extern __shared__ __align__(16) unsigned char shared[];
  const Layout layout{shared_address(shared)};
  const auto tile = static_cast<std::int32_t>(gridDim.x - 1 - blockIdx.x);
  const AttentionShape& shape = arguments.shape;
  const PackedRows packed{static_cast<std::int32_t>(shape.query_heads / shape.kv_heads),
                          static_cast<std::int32_t>(arguments.query.rows),
                          static_cast<std::int32_t>(blockIdx.y)};
  const std::int32_t first_row = tile * kQueryTileRows;
  const Divisor heads(packed.heads);
  const KeyWalk<kKeys> walk(plan.tiles.data[tile]);
  const KeyOperands from{arguments.context_key, arguments.context_value, arguments.block_key,
                         arguments.block_value, static_cast<std::int64_t>(blockIdx.y) * head_dim};
  layout.query().template load_packed<kQueryTileRows, kPortableThreads>(arguments.query, packed, heads,
                                                                        first_row);
  layout.grad_output().template load_packed<kQueryTileRows, kPortableThreads>(arguments.grad_output, packed,
                                                                              heads, first_row);
  if (kStages == 2) load_step(from, walk, 0, layout.key(0), layout.value(0));
  const GradientRows rows(
      arguments, packed,
      statistics +
          (static_cast<std::int64_t>(blockIdx.y) * plan.capacity.query_tiles + tile) * kStatisticFloats,
      first_row);
  const int warp_row = threadIdx.x / 32 * 16;
  float grad_query[head_dim / 8][4] = {};
  for (std::int32_t step = 0; step < walk.steps(); ++step) {
    const int stage = kStages == 2 ? step % 2 : 0, other = stage ^ (kStages - 1);
    load_step(from, walk, step + kStages - 1, layout.key(other), layout.value(other));
    wait_copies<kStages - 1>();
    __syncthreads();
    float scores[kKeys / 8][4], ds[kKeys / 8][4];
    multiply_rows<head_dim, kKeys / 8>(scores, layout.query(), warp_row, layout.key(stage), 0);
    multiply_rows<head_dim, kKeys / 8>(ds, layout.grad_output(), warp_row, layout.value(stage), 0);
    differentiate(scores, ds, rows, walk.is_own(step), walk.first_key(step), shape.scale * kLog2E);
    add_products<head_dim>(grad_query, ds, layout.key(stage), 0, 0);
    __syncthreads();
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::int32_t place = rows.place[half];
    if (!packed.inside(place)) continue;
    store_row(arguments.grad_query.row(packed.token(place)) +
                  static_cast<std::int64_t>(packed.head(place)) * head_dim,
              grad_query, half, shape.scale);
  }
}

}  // namespace

void launch_portable_key_gradients(const AttentionBackward<bf16>& arguments, const AttentionPlan& plan,
                                   const AttentionGradientScratch& scratch, cudaStream_t stream) {
  with_head_dim(arguments.shape.head_dim, [&](auto head_dim) {
    using Layout = KeyGradientLayout<head_dim>;
    const std::int64_t context_blocks = div_ceil(arguments.context_key.rows, Layout::kKeys);
    const std::int64_t own_blocks =
        arguments.shape.block_size > 0 ? div_ceil(arguments.query.rows, Layout::kKeys) : 0;
    const dim3 grid(static_cast<unsigned>(context_blocks + own_blocks),
                    static_cast<unsigned>(arguments.shape.kv_heads));
    portable_key_gradient_kernel<head_dim><<<grid, kPortableThreads, Layout::kBytes, stream>>>(
        arguments, plan, scratch.statistics.data, static_cast<std::int32_t>(context_blocks));
  });
  check_launch("portable attention key gradients");
}

void launch_portable_query_gradient(const AttentionBackward<bf16>& arguments, const AttentionPlan& plan,
                                    const AttentionGradientScratch& scratch, bool only_unless_stored,
                                    cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(plan.capacity.query_tiles),
                  static_cast<unsigned>(arguments.shape.kv_heads));
  const std::int64_t skip_if_stored = only_unless_stored ? scratch.grad_scores.size / kGradScoreSlice : 0;
  with_head_dim(arguments.shape.head_dim, [&](auto head_dim) {
    portable_query_gradient_kernel<head_dim>
        <<<grid, kPortableThreads, QueryGradientLayout<head_dim>::kBytes, stream>>>(
            arguments, plan, scratch.statistics.data, skip_if_stored);
  });
  check_launch("portable attention query gradient");
}

void prepare_portable_backward() {
  for (const std::int64_t size : {64, 96, 128, 256}) {
    with_head_dim(size, [](auto head_dim) {
      allow_shared_memory(portable_key_gradient_kernel<head_dim>, KeyGradientLayout<head_dim>::kBytes);
      allow_shared_memory(portable_query_gradient_kernel<head_dim>, QueryGradientLayout<head_dim>::kBytes);
    });
  }
}

}  // namespace draftsmith::cuda
