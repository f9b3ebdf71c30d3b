// Portable attention backward, deterministic by recomputation: no sum crosses a block of threads.
//   statistics      one block per (query tile, kv head): delta = sum(grad_o * o), log2 of the softmax's sum
//   key gradients   one block per (64 keys, kv head), of the context or of the draft blocks; its warps own 16
//                   keys each and walk over the packed rows that see them, 32 at a time:
//                     p^T = 2^(k q^T c - log2 sum), ds^T = p^T (v grad_o^T - delta), dv += p^T grad_o, dk +=
//                     ds^T q
//   query gradient  one block per (64 packed rows, kv head); its warps own 16 rows and walk over the keys
#include "kernels/cuda/attention_portable.cuh"

namespace draftsmith::cuda {

namespace {

constexpr int kStatisticThreads = 256;
constexpr int kStepRows = 32;  // packed rows of a step of the key gradients

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
      output[i][chunk] = *reinterpret_cast<const uint4*>(arguments.output.row(packed.token(safe)) + at);
      grad[i][chunk] = *reinterpret_cast<const uint4*>(arguments.grad_output.row(packed.token(safe)) + at);
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
    if (step < steps.last) {
      const std::int32_t row = step * kStepRows;
      layout.query(stage).template load_packed<kStepRows, kPortableThreads>(arguments.query, packed, heads,
                                                                            row);
      layout.grad_output(stage).template load_packed<kStepRows, kPortableThreads>(arguments.grad_output,
                                                                                  packed, heads, row);
      load_statistics(layout.statistics_address(stage), of_head, row);
    }
    commit_copies();
  };

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int key_row = warp / Layout::kSplit * 16, first_column = warp % Layout::kSplit * Layout::kColumns;
  const std::int32_t my_keys[2] = {first_key + key_row + lane / 4, first_key + key_row + lane / 4 + 8};
  const float log2_scale = shape.scale * kLog2E;
  float grad_key[Layout::kColumns / 8][4] = {}, grad_value[Layout::kColumns / 8][4] = {};
  if (kStages == 2) load(steps.first, 0);
  for (std::int32_t step = steps.first; step < steps.last; ++step) {
    const int stage = kStages == 2 ? (step - steps.first) % 2 : 0;
    if (kStages == 2) {
      load(step + 1, stage ^ 1);
      wait_copies<1>();
    } else {
      load(step, 0);
      wait_copies<0>();
    }
    __syncthreads();
    float p[kStepRows / 8][4], ds[kStepRows / 8][4];
    multiply_rows<head_dim, kStepRows / 8>(p, layout.key(), key_row, layout.query(stage), 0);
    multiply_rows<head_dim, kStepRows / 8>(ds, layout.value(), key_row, layout.grad_output(stage), 0);
    const auto* of_step =
        reinterpret_cast<const float*>(shared + layout.statistics_address(stage) - layout.base);
    const auto of = [&](Statistic which, int row) {
      return of_step[static_cast<int>(which) * kStepRows + row];
    };
    const Statistic begin = own ? Statistic::own_begin : Statistic::context_begin;
    const Statistic end = own ? Statistic::own_end : Statistic::context_end;
#pragma unroll
    for (int i = 0; i < kStepRows / 2; ++i) {
      const int row = i / 4 * 8 + lane % 4 * 2 + i % 2;
      const std::int32_t key = my_keys[i / 2 % 2];
      const bool visible = key >= __float_as_int(of(begin, row)) && key < __float_as_int(of(end, row));
      const float exponent = fmaf(p[i / 4][i % 4], log2_scale, -of(Statistic::log2_sum_exp, row));
      p[i / 4][i % 4] = visible ? exp2_fast(exponent) : 0.0f;
      ds[i / 4][i % 4] = p[i / 4][i % 4] * (ds[i / 4][i % 4] - of(Statistic::delta, row));
    }
    add_products<head_dim>(grad_value, p, layout.grad_output(stage), 0, first_column);
    add_products<head_dim>(grad_key, ds, layout.query(stage), 0, first_column);
    __syncthreads();
  }

  const Matrix<bf16>& key_to = own ? arguments.grad_block_key : arguments.grad_context_key;
  const Matrix<bf16>& value_to = own ? arguments.grad_block_value : arguments.grad_context_value;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (my_keys[half] >= limit) continue;
    auto* to_key = reinterpret_cast<std::uint32_t*>(key_to.row(my_keys[half]) + column + first_column);
    auto* to_value = reinterpret_cast<std::uint32_t*>(value_to.row(my_keys[half]) + column + first_column);
#pragma unroll
    for (int i = 0; i < Layout::kColumns / 8; ++i) {
      to_key[i * 4 + lane % 4] =
          pack_bf16(grad_key[i][2 * half] * shape.scale, grad_key[i][2 * half + 1] * shape.scale);
      to_value[i * 4 + lane % 4] = pack_bf16(grad_value[i][2 * half], grad_value[i][2 * half + 1]);
    }
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
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.y) * head_dim;
  const std::int32_t first_row = tile * kQueryTileRows;
  const Divisor heads(packed.heads);
  const KeyWalk<kKeys> walk(plan.tiles.data[tile]);
  const auto load = [&](std::int32_t step, int stage) {
    if (step < walk.steps()) {
      const Matrix<const bf16>& keys = walk.is_own(step) ? arguments.block_key : arguments.context_key;
      const Matrix<const bf16>& values = walk.is_own(step) ? arguments.block_value : arguments.context_value;
      const auto limit = static_cast<std::int32_t>(keys.rows);
      layout.key(stage).template load<kKeys, kPortableThreads>(keys, walk.first_key(step), limit, column);
      layout.value(stage).template load<kKeys, kPortableThreads>(values, walk.first_key(step), limit, column);
    }
    commit_copies();
  };
  layout.query().template load_packed<kQueryTileRows, kPortableThreads>(arguments.query, packed, heads,
                                                                        first_row);
  layout.grad_output().template load_packed<kQueryTileRows, kPortableThreads>(arguments.grad_output, packed,
                                                                              heads, first_row);
  if (kStages == 2) load(0, 0);

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int my_row = warp * 16 + lane / 4;
  const std::int32_t rows[2] = {first_row + my_row, first_row + my_row + 8};
  const RowVisibility seen[2] = {row_visibility(shape, arguments.intervals, packed, rows[0]),
                                 row_visibility(shape, arguments.intervals, packed, rows[1])};
  const float* of_tile =
      statistics +
      (static_cast<std::int64_t>(blockIdx.y) * plan.capacity.query_tiles + tile) * kStatisticFloats + my_row;
  const float* sums = of_tile + statistic_place(Statistic::log2_sum_exp);
  const float* deltas = of_tile + statistic_place(Statistic::delta);
  const float log2_sum_exp[2] = {sums[0], sums[8]}, delta[2] = {deltas[0], deltas[8]};
  const float log2_scale = shape.scale * kLog2E;
  float grad_query[head_dim / 8][4] = {};
  for (std::int32_t step = 0; step < walk.steps(); ++step) {
    const int stage = kStages == 2 ? step % 2 : 0;
    if (kStages == 2) {
      load(step + 1, stage ^ 1);
      wait_copies<1>();
    } else {
      load(step, 0);
      wait_copies<0>();
    }
    __syncthreads();
    const RowInterval intervals[2] = {seen[0].of(walk.is_own(step)), seen[1].of(walk.is_own(step))};
    float p[kKeys / 8][4], ds[kKeys / 8][4];
    multiply_rows<head_dim, kKeys / 8>(p, layout.query(), warp * 16, layout.key(stage), 0);
    multiply_rows<head_dim, kKeys / 8>(ds, layout.grad_output(), warp * 16, layout.value(stage), 0);
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i) {
      const int half = i / 2 % 2;
      const RowInterval& interval = intervals[half];
      const std::int32_t key = walk.first_key(step) + i / 4 * 8 + lane % 4 * 2 + i % 2;
      const bool visible = key >= interval.begin && key < interval.end;
      const float probability =
          visible ? exp2_fast(fmaf(p[i / 4][i % 4], log2_scale, -log2_sum_exp[half])) : 0.0f;
      ds[i / 4][i % 4] = probability * (ds[i / 4][i % 4] - delta[half]);
    }
    add_products<head_dim>(grad_query, ds, layout.key(stage), 0, 0);
    __syncthreads();
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (!packed.inside(rows[half])) continue;
    auto* to =
        reinterpret_cast<std::uint32_t*>(arguments.grad_query.row(packed.token(rows[half])) +
                                         static_cast<std::int64_t>(packed.head(rows[half])) * head_dim);
#pragma unroll
    for (int i = 0; i < head_dim / 8; ++i) {
      to[i * 4 + lane % 4] =
          pack_bf16(grad_query[i][2 * half] * shape.scale, grad_query[i][2 * half + 1] * shape.scale);
    }
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
