// How the CPU attention cuts its work. The query heads of one kv head are packed into rows: packed row i of a
// group is query row i / heads and head i % heads, so that all of them share each tile of keys.
//   group: rows that walk the same key tiles, whose boundaries are multiples of kTileKeys from the group's
//          origin: the rows of a draft block (origin: the first begin among them), or consecutive rows with
//          an equal begin. So a row's tiles depend on nothing but its own interval (and its block's).
//   chunk: up to kTileRows packed rows of a group, which is what the tiles on the stack hold.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/arithmetic.h"
#include "kernels/attention.h"
#include "kernels/cpu/tile.h"

namespace draftsmith::cpu {

inline constexpr std::int64_t kTileKeys = 64;
inline constexpr std::int64_t kTileRows = 64;
inline constexpr std::int64_t kMaxHeadDim = 256;  // limits the tiles on the stack

struct Chunk {
  std::int64_t first_row;  // of the group
  std::int64_t heads;      // query heads per kv head
  std::int64_t kv_head;
  std::int64_t first_packed;  // within the group
  std::int64_t count;

  std::int64_t row(std::int64_t i) const { return first_row + (first_packed + i) / heads; }
  std::int64_t head(std::int64_t i) const { return kv_head * heads + (first_packed + i) % heads; }
};

struct Group {
  std::int64_t first_row, last_row;
  std::int64_t origin, limit;  // the context rows that any of its rows sees; empty when none does
};

class Cut {
 public:
  Cut(const AttentionShape& shape, const ContextIntervals& intervals)
      : intervals_(intervals),
        heads_(div_exact(shape.query_heads, shape.kv_heads)),
        block_size_(shape.block_size),
        item_rows_(shape.block_size > 0 ? shape.block_size : std::max<std::int64_t>(1, kTileRows / heads_)) {
    DRAFTSMITH_CHECK(shape.head_dim >= 1 && shape.head_dim <= kMaxHeadDim && shape.block_size <= kTileKeys,
                     "head_dim and block_size fit the tiles");
    DRAFTSMITH_CHECK(intervals.begin.size == intervals.end.size, "an interval has two ends");
    DRAFTSMITH_CHECK(shape.block_size == 0 || intervals.begin.size % shape.block_size == 0, "whole blocks");
  }

  // Work items of one kv head: draft blocks, or runs of rows.
  std::int64_t items() const { return div_ceil(intervals_.begin.size, item_rows_); }

  // How many kv heads' packed rows the tiles hold when there is one item.
  std::int64_t heads_together() const {
    return std::max<std::int64_t>(1, kTileRows / (intervals_.begin.size * heads_));
  }

  // body(group) for each group of an item, in row order.
  template <typename Body>
  void for_groups(std::int64_t item, const Body& body) const {
    const std::int64_t end = std::min((item + 1) * item_rows_, intervals_.begin.size);
    for (std::int64_t first = item * item_rows_; first < end;) {
      std::int64_t last = end;
      if (block_size_ == 0) {
        last = first + 1;
        while (last < end && intervals_.begin[last] == intervals_.begin[first]) ++last;
      }
      body(group_of(first, last));
      first = last;
    }
  }

  // body(chunk) for each chunk of the rows of a group.
  template <typename Body>
  void for_chunks(const Group& group, std::int64_t kv_head, const Body& body) const {
    const std::int64_t packed = (group.last_row - group.first_row) * heads_;
    for (std::int64_t first = 0; first < packed; first += kTileRows) {
      body(Chunk{group.first_row, heads_, kv_head, first, std::min(kTileRows, packed - first)});
    }
  }

 private:
  Group group_of(std::int64_t first, std::int64_t last) const {
    Group group{first, last, 0, 0};
    for (std::int64_t row = first; row < last; ++row) {
      const std::int64_t begin = intervals_.begin[row], end = intervals_.end[row];
      if (end <= begin) continue;  // sees no context; an invalid row's end is negative
      const bool first_seen = group.limit == group.origin;
      group.origin = first_seen ? begin : std::min(group.origin, begin);
      group.limit = first_seen ? end : std::max(group.limit, end);
    }
    return group;
  }

  ContextIntervals intervals_;
  std::int64_t heads_, block_size_, item_rows_;
};

// Which columns of a key tile each packed row of a chunk sees: [low, high).
struct Visibility {
  std::int32_t low[kTileRows], high[kTileRows];
  std::int64_t first_row = kTileRows, last_row = 0;  // packed rows that see any
  std::int64_t first_key = kTileKeys, last_key = 0;  // columns that any row sees

  bool empty() const { return first_row >= last_row; }
  std::int64_t rows() const { return last_row - first_row; }
  // The columns in whole vectors.
  std::int64_t first_vector() const { return first_key / kLanes; }
  std::int64_t vectors() const { return div_ceil(last_key, kLanes) - first_vector(); }

  void set(std::int64_t i, std::int64_t row_low, std::int64_t row_high) {
    low[i] = static_cast<std::int32_t>(row_low);
    high[i] = static_cast<std::int32_t>(row_high);
    if (row_low >= row_high) return;
    first_row = std::min(first_row, i);
    last_row = i + 1;
    first_key = std::min(first_key, row_low);
    last_key = std::max(last_key, row_high);
  }
};

// Context rows [first, first + count).
inline Visibility context_visibility(const ContextIntervals& intervals, const Chunk& chunk,
                                     std::int64_t first, std::int64_t count) {
  Visibility visibility;
  for (std::int64_t i = 0; i < chunk.count; ++i) {
    const std::int64_t row = chunk.row(i);
    visibility.set(i, std::clamp<std::int64_t>(intervals.begin[row] - first, 0, count),
                   std::clamp<std::int64_t>(intervals.end[row] - first, 0, count));
  }
  return visibility;
}

// The rows of the chunk's own block.
inline Visibility block_visibility(const AttentionShape& shape, const ContextIntervals& intervals,
                                   const Chunk& chunk) {
  Visibility visibility;
  for (std::int64_t i = 0; i < chunk.count; ++i) {
    const std::int64_t row = chunk.row(i);
    const std::int64_t seen = shape.causal_in_block ? row - chunk.first_row + 1 : shape.block_size;
    visibility.set(i, 0, intervals.end[row] < 0 ? 0 : seen);
  }
  return visibility;
}

inline IntLanes visible(const Visibility& visibility, std::int64_t row, std::int64_t column) {
  const IntLanes columns = lane_index() + static_cast<std::int32_t>(column);
  return (columns >= visibility.low[row]) & (columns < visibility.high[row]);
}

// Some rows of one head of keys or values.
template <typename T>
struct KeyRows {
  Matrix<const T> rows;
  std::int64_t first, count;
  std::int64_t column, head_dim;  // the head's columns

  const T* row(std::int64_t i) const { return rows.row(first + i) + column; }
};

// tile[i] = row i, padded with zeros to a multiple of kLanes.
template <typename T>
void load_rows(const KeyRows<T>& from, float* tile) {
  const std::int64_t stride = round_up(from.head_dim, kLanes);
  for (std::int64_t i = 0; i < from.count; ++i) {
    const T* row = from.row(i);
    for_lanes(0, from.head_dim,
              [&](auto place) { store(tile + i * stride + place.column, place.load(row)); });
  }
}

// Asks for rows that are read soon: a head's columns are short pieces far apart, which hardware does not follow.
// Inlined, as gcc takes a function that does nothing else for one without effects and leaves out its calls.
template <typename T>
[[gnu::always_inline]] inline void ask_for(const KeyRows<T>& rows) {
  constexpr std::int64_t kLine = 64 / sizeof(T);
  for (std::int64_t i = 0; i < rows.count; ++i) {
    const T* row = rows.row(i);
    for (std::int64_t column = 0; column < rows.head_dim; column += kLine)
      __builtin_prefetch(row + column, 0, 3);
  }
}

// What load_transposed does, for sixteen rows from `first` and the columns that are whole vectors of pairs: two columns
// change places as one word. Returns how many columns.
inline std::int64_t load_pairs_transposed(const KeyRows<bf16>& from, std::int64_t first, float* tile) {
  static constexpr bf16 kZeros[kMaxHeadDim] = {};
  const bf16* rows[kLanes];
  for (std::int64_t i = 0; i < kLanes; ++i) rows[i] = first + i < from.count ? from.row(first + i) : kZeros;
  std::int64_t column = 0;
  for (; column + 2 * kLanes <= from.head_dim; column += 2 * kLanes) {
    Lanes pairs[kLanes];
    for (std::int64_t i = 0; i < kLanes; ++i) std::memcpy(&pairs[i], rows[i] + column, sizeof pairs[i]);
    transpose(pairs);
    float* to = tile + column * kTileKeys + first;
    for (std::int64_t pair = 0; pair < kLanes; ++pair) {
      const WordLanes words = reinterpret_cast<WordLanes>(pairs[pair]);
      store(to + 2 * pair * kTileKeys, reinterpret_cast<Lanes>(words << 16));
      store(to + (2 * pair + 1) * kTileKeys, reinterpret_cast<Lanes>(words & 0xffff0000u));
    }
  }
  return column;
}

// tile[d][i] = row i's column d, with a stride of kTileKeys and zero columns up to a multiple of kLanes.
template <typename T>
void load_transposed(const KeyRows<T>& from, float* tile) {
  for (std::int64_t first = 0; first < from.count; first += kLanes) {
    std::int64_t done = 0;
    if constexpr (std::is_same_v<T, bf16>) done = load_pairs_transposed(from, first, tile);
    for_lanes(done, from.head_dim, [&](auto place) {
      Lanes lanes[kLanes];
      for (std::int64_t i = 0; i < kLanes; ++i) {
        lanes[i] = first + i < from.count ? place.load(from.row(first + i)) : Lanes{};
      }
      transpose(lanes);
      for (std::int64_t d = 0; d < kLanes; ++d)
        store(tile + (place.column + d) * kTileKeys + first, lanes[d]);
    });
  }
}

// tile[i] = packed row i times `scale`, padded with zeros.
template <typename T>
void load_packed(const Matrix<const T>& from, const Chunk& chunk, std::int64_t head_dim, float scale,
                 float* tile) {
  const std::int64_t stride = round_up(head_dim, kLanes);
  for (std::int64_t i = 0; i < chunk.count; ++i) {
    const T* row = from.row(chunk.row(i)) + chunk.head(i) * head_dim;
    for_lanes(0, head_dim,
              [&](auto place) { store(tile + i * stride + place.column, place.load(row) * scale); });
  }
}

// Packed row i of the output = tile[i] times factor(i).
template <typename T, typename Factor>
void store_packed(const float* tile, const Chunk& chunk, std::int64_t head_dim, const Matrix<T>& to,
                  const Factor& factor) {
  const std::int64_t stride = round_up(head_dim, kLanes);
  for (std::int64_t i = 0; i < chunk.count; ++i) {
    T* row = to.row(chunk.row(i)) + chunk.head(i) * head_dim;
    const float by = factor(i);
    for_lanes(0, head_dim,
              [&](auto place) { place.store(row, load(tile + i * stride + place.column) * by); });
  }
}

// Scores of a chunk's visible rows against the visible columns of a key tile: a[i] . key[j].
struct Scores {
  const float* packed;      // [rows, padded head_dim]
  const float* transposed;  // [head_dim, kTileKeys]
  float* scores;            // [rows, kTileKeys]
};

inline void multiply_scores(const Scores& tiles, const Visibility& seen, std::int64_t head_dim) {
  const std::int64_t stride = round_up(head_dim, kLanes), column = seen.first_vector() * kLanes;
  multiply<float>({.a = tiles.packed + seen.first_row * stride,
                   .a_row = stride,
                   .a_depth = 1,
                   .b = tiles.transposed + column,
                   .b_stride = kTileKeys,
                   .c = tiles.scores + seen.first_row * kTileKeys + column,
                   .c_stride = kTileKeys,
                   .rows = seen.rows(),
                   .vectors = seen.vectors(),
                   .depth = head_dim,
                   .accumulate = false});
}

// The keys or values of a tile, row by row: widened and padded, or where they are stored.
template <typename T>
struct TileRows {
  const T* data;
  std::int64_t stride;
};

// sums[i] += sum over keys of coefficients[i][j] * rows[j]: outputs from values, query gradients from keys.
template <typename T>
void add_keys(const float* coefficients, const TileRows<T>& keys, const Visibility& seen,
              std::int64_t head_dim, float* sums) {
  const std::int64_t stride = round_up(head_dim, kLanes);
  multiply<T>({.a = coefficients + seen.first_row * kTileKeys + seen.first_key,
               .a_row = kTileKeys,
               .a_depth = 1,
               .b = keys.data + seen.first_key * keys.stride,
               .b_stride = keys.stride,
               .c = sums + seen.first_row * stride,
               .c_stride = stride,
               .rows = seen.rows(),
               .vectors = stride / kLanes,
               .depth = seen.last_key - seen.first_key,
               .accumulate = true});
}

// sums[j] += sum over packed rows of coefficients[i][j] * packed[i]: gradients of keys and values.
inline void add_rows(const float* coefficients, const float* packed, const Visibility& seen,
                     std::int64_t head_dim, float* sums) {
  const std::int64_t stride = round_up(head_dim, kLanes);
  multiply<float>({.a = coefficients + seen.first_row * kTileKeys + seen.first_key,
                   .a_row = 1,
                   .a_depth = kTileKeys,
                   .b = packed + seen.first_row * stride,
                   .b_stride = stride,
                   .c = sums + seen.first_key * stride,
                   .c_stride = stride,
                   .rows = seen.last_key - seen.first_key,
                   .vectors = stride / kLanes,
                   .depth = seen.rows(),
                   .accumulate = true});
}

}  // namespace draftsmith::cpu
