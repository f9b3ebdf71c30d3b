// Tiles of the portable attention kernels: rows of head_dim bf16 in shared memory, 16 bytes of padding after
// each, so that the 8 rows of an ldmatrix fall into different banks for every head_dim.
#pragma once

#include "kernels/cuda/attention_tile.cuh"
#include "kernels/cuda/mma.cuh"

namespace draftsmith::cuda {

inline constexpr int kPortableThreads = 128;

// Division of numbers below 2^32 by one below 64, as a product: loops that load packed rows divide for every 16
// bytes.
struct Divisor {
  std::uint64_t reciprocal;

  __device__ explicit Divisor(std::int32_t by)
      : reciprocal((std::uint64_t{1} << 40) / static_cast<std::uint64_t>(by) + 1) {}
  __device__ std::int32_t divide(std::int32_t value) const {
    return static_cast<std::int32_t>(static_cast<std::uint64_t>(value) * reciprocal >> 40);
  }
};

template <int head_dim>
struct PaddedTile {
  static constexpr int kPitch = head_dim * 2 + 16;  // bytes
  static constexpr int kChunks = head_dim / 8;      // 16 bytes each

  std::uint32_t base;

  static constexpr int bytes(int rows) { return rows * kPitch; }

  // Rows [first, first + rows) of a matrix, the head's columns; zeros from `limit` on.
  template <int rows, int threads>
  __device__ void load(const Matrix<const bf16>& matrix, std::int32_t first, std::int32_t limit,
                       std::int64_t column) const {
    for (int i = threadIdx.x; i < rows * kChunks; i += threads) {
      const int row = i / kChunks, chunk = i % kChunks;
      const bool inside = first + row < limit;
      const bf16* from = matrix.data + (inside ? first + row : 0) * matrix.stride + column + chunk * 8;
      copy_async(base + row * kPitch + chunk * 16, from, inside);
    }
  }

  // Packed rows [first, first + rows); `heads` divides by packed.heads.
  template <int rows, int threads>
  __device__ void load_packed(const Matrix<const bf16>& matrix, const PackedRows& packed,
                              const Divisor& heads, std::int32_t first) const {
    for (int i = threadIdx.x; i < rows * kChunks; i += threads) {
      const int row = i / kChunks, chunk = i % kChunks;
      const bool inside = packed.inside(first + row);
      const std::int32_t place = inside ? first + row : 0, token = heads.divide(place);
      const std::int32_t head = packed.kv_head * packed.heads + place - token * packed.heads;
      const bf16* from =
          matrix.data + token * matrix.stride + static_cast<std::int64_t>(head) * head_dim + chunk * 8;
      copy_async(base + row * kPitch + chunk * 16, from, inside);
    }
  }

  // [16 rows from `row`, 16 columns from `column`] as a left fragment.
  __device__ void left(std::uint32_t (&out)[4], int row, int column) const {
    const int lane = threadIdx.x % 32;
    load_matrices(out, base + (row + lane % 16) * kPitch + (column + lane / 16 * 8) * 2);
  }
  // Right fragments of two products whose columns are this tile's rows [row, row + 16): out[0..1] and
  // out[2..3].
  __device__ void right_by_rows(std::uint32_t (&out)[4], int row, int column) const {
    const int lane = threadIdx.x % 32;
    load_matrices(out, base + (row + lane % 8 + lane / 16 * 8) * kPitch + (column + lane / 8 % 2 * 8) * 2);
  }
  // Right fragments of two products whose depth is this tile's rows [row, row + 16) and whose columns are
  // its columns [column, column + 16).
  __device__ void right_by_columns(std::uint32_t (&out)[4], int row, int column) const {
    const int lane = threadIdx.x % 32;
    load_matrices_transposed(out, base + (row + lane % 16) * kPitch + (column + lane / 16 * 8) * 2);
  }
};

// sums [16, 8 * tiles] = left rows [row, +16) times right rows [first, +8 * tiles), over head_dim.
template <int head_dim, int tiles>
__device__ void multiply_rows(float (&sums)[tiles][4], const PaddedTile<head_dim>& left, int row,
                              const PaddedTile<head_dim>& right, int first) {
#pragma unroll
  for (int tile = 0; tile < tiles; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[tile][i] = 0;
  }
#pragma unroll
  for (int depth = 0; depth < head_dim; depth += 16) {
    std::uint32_t a[4];
    left.left(a, row, depth);
#pragma unroll
    for (int tile = 0; tile < tiles; tile += 2) {
      std::uint32_t b[4];
      right.right_by_rows(b, first + tile * 8, depth);
      multiply_add(sums[tile], a, b[0], b[1]);
      multiply_add(sums[tile + 1], a, b[2], b[3]);
    }
  }
}

// sums [16, 8 * columns_tiles] += coefficients [16, 8 * tiles] times right rows [first, +8 * tiles), columns
// from `column`.
template <int head_dim, int tiles, int column_tiles>
__device__ void add_products(float (&sums)[column_tiles][4], const float (&coefficients)[tiles][4],
                             const PaddedTile<head_dim>& right, int first, int column) {
#pragma unroll
  for (int tile = 0; tile < tiles; tile += 2) {
    const auto& low = coefficients[tile];
    const auto& high = coefficients[tile + 1];
    const std::uint32_t a[4] = {pack_bf16(low[0], low[1]), pack_bf16(low[2], low[3]),
                                pack_bf16(high[0], high[1]), pack_bf16(high[2], high[3])};
#pragma unroll
    for (int to = 0; to < column_tiles; to += 2) {
      std::uint32_t b[4];
      right.right_by_columns(b, first + tile * 8, column + to * 8);
      multiply_add(sums[to], a, b[0], b[1]);
      multiply_add(sums[to + 1], a, b[2], b[3]);
    }
  }
}

// The walk of one query tile over the key tiles that it sees: own rows first, then the context, ascending.
template <int key_rows>
struct KeyWalk {
  TileRange own, context;

  __device__ explicit KeyWalk(const QueryTile& tile)
      : own(tile.own.tiles(key_rows)), context(tile.context.tiles(key_rows)) {}
  __device__ std::int32_t steps() const { return own.count() + context.count(); }
  __device__ bool is_own(std::int32_t step) const { return step < own.count(); }
  __device__ std::int32_t first_key(std::int32_t step) const {
    return (is_own(step) ? own.first + step : context.first + step - own.count()) * key_rows;
  }
};

// Where a walk's keys and values come from.
struct KeyOperands {
  const Matrix<const bf16>&context_key, &context_value, &block_key, &block_value;
  std::int64_t column;  // of the kv head
};

// Brings a step of a walk, if there is one.
template <int head_dim, int key_rows>
__device__ void load_step(const KeyOperands& from, const KeyWalk<key_rows>& walk, std::int32_t step,
                          const PaddedTile<head_dim>& key, const PaddedTile<head_dim>& value) {
  if (step < walk.steps()) {
    const bool own = walk.is_own(step);
    const Matrix<const bf16>& keys = own ? from.block_key : from.context_key;
    const Matrix<const bf16>& values = own ? from.block_value : from.context_value;
    const auto limit = static_cast<std::int32_t>(keys.rows);
    key.template load<key_rows, kPortableThreads>(keys, walk.first_key(step), limit, from.column);
    value.template load<key_rows, kPortableThreads>(values, walk.first_key(step), limit, from.column);
  }
  commit_copies();
}

// Row `half` of a thread's sums, times a factor.
template <int tiles>
__device__ void store_row(bf16* to, const float (&sums)[tiles][4], int half, float factor) {
#pragma unroll
  for (int i = 0; i < tiles; ++i) {
    reinterpret_cast<std::uint32_t*>(to)[i * 4 + threadIdx.x % 4] =
        pack_bf16(sums[i][2 * half] * factor, sums[i][2 * half + 1] * factor);
  }
}

// A row's intervals and whether it counts at all.
struct RowVisibility {
  RowInterval context{0, 0}, own{0, 0};

  __device__ RowInterval of(bool is_own) const {
    return {is_own ? own.begin : context.begin, is_own ? own.end : context.end};
  }
};

__device__ inline RowVisibility row_visibility(const AttentionShape& shape, const ContextIntervals& intervals,
                                               const PackedRows& packed, std::int32_t row) {
  RowVisibility seen;
  if (!packed.inside(row)) return seen;
  const std::int32_t token = packed.token(row), end = intervals.end.data[token];
  if (end < 0) return seen;
  seen.context = {intervals.begin.data[token], end};
  seen.own = own_interval(token, end, static_cast<std::int32_t>(shape.block_size), shape.causal_in_block);
  return seen;
}

// Runs body with head_dim as a constant.
template <typename Body>
void with_head_dim(std::int64_t head_dim, const Body& body) {
  switch (head_dim) {
    case 64:
      return body(std::integral_constant<int, 64>{});
    case 96:
      return body(std::integral_constant<int, 96>{});
    case 128:
      return body(std::integral_constant<int, 128>{});
    case 256:
      return body(std::integral_constant<int, 256>{});
    default:
      DRAFTSMITH_CHECK(false, "choose_attention_path knows the head dimensions of the portable kernels");
  }
}

}  // namespace draftsmith::cuda
