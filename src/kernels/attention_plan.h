// How block-sparse attention is cut into work on a GPU. The query heads of one kv head are packed into rows
// (packed row = token * heads + head), so that they share each tile of keys:
//   query tile   64 packed rows
//   query group  4 query tiles: what one item of the query-gradient product makes
//   key tile     128 rows of the context, or of the draft blocks ("own" rows), on multiples of 128
//   key slice    half of a key tile
// Every mask is an interval of rows: the context interval of the contract, and the own interval, the rows of
// the token's block that it sees. Tiles lie on a fixed grid, whatever the documents are, so a row's bits
// depend on its own interval alone; the rules hold for intervals in any order and are fast for sorted ones.
//
// The backward pass stores ds, so that grad_query is one more product: group g holds [its own slices, its
// context slices] from `offset` on, in units of one key slice by one group. A key item makes the gradients of
// one key tile from the groups [first_group, last_group) that see it; a long item is split, and the parts are
// added in order.
//
// The rules are constexpr: the device kernel that fills a plan every step (intervals are data, shapes are
// budgets) runs the same ones as build_attention_plan below.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/attention.h"

namespace draftsmith {

inline constexpr std::int32_t kQueryTileRows = 64;
inline constexpr std::int32_t kGroupTiles = 4;
inline constexpr std::int32_t kGroupRows = kQueryTileRows * kGroupTiles;
inline constexpr std::int32_t kKeyTileRows = 128;
inline constexpr std::int32_t kKeySliceRows = 64;
inline constexpr std::int32_t kTileSlices = kKeyTileRows / kKeySliceRows;

// The split of items is balanced for this many processors on every card, so that bits do not depend on it.
inline constexpr std::int32_t kBalancedProcessors = 132;
inline constexpr std::int32_t kPartsPerProcessor = 4;
inline constexpr std::int32_t kShortestPart = 16;  // groups

// Half open; empty when first >= last.
struct TileRange {
  std::int32_t first = 0, last = 0;

  constexpr std::int32_t count() const { return last > first ? last - first : 0; }
  constexpr bool contains(std::int32_t tile) const { return tile >= first && tile < last; }
  bool operator==(const TileRange&) const = default;
};

// Over the valid rows of a tile: the rows that any of them sees lie in the hull; all of them see the core.
struct IntervalBounds {
  std::int32_t hull_begin = std::numeric_limits<std::int32_t>::max();
  std::int32_t hull_end = 0;
  std::int32_t core_begin = 0;
  std::int32_t core_end = std::numeric_limits<std::int32_t>::max();

  constexpr void include(std::int32_t begin, std::int32_t end) {
    if (begin < end) {
      hull_begin = std::min(hull_begin, begin);
      hull_end = std::max(hull_end, end);
    }
    core_begin = std::max(core_begin, begin);
    core_end = std::min(core_end, end);
  }
  constexpr void include(const IntervalBounds& other) {
    hull_begin = std::min(hull_begin, other.hull_begin);
    hull_end = std::max(hull_end, other.hull_end);
    core_begin = std::max(core_begin, other.core_begin);
    core_end = std::min(core_end, other.core_end);
  }
  // The tiles of `rows` rows that touch the hull.
  constexpr TileRange tiles(std::int32_t rows) const {
    if (hull_begin >= hull_end) return {};
    return {hull_begin / rows, (hull_end + rows - 1) / rows};
  }
  constexpr bool sees_all(std::int32_t first, std::int32_t count) const {
    return core_begin <= first && first + count <= core_end;
  }
  constexpr bool sees_any(std::int32_t first, std::int32_t count) const {
    return hull_begin < first + count && hull_end > first;
  }
  bool operator==(const IntervalBounds&) const = default;
};

struct RowInterval {
  std::int32_t begin, end;
};

// The rows of its own block that a token sees; `context_end` < 0 marks an invalid block.
constexpr RowInterval own_interval(std::int32_t token, std::int32_t context_end, std::int32_t block_size,
                                   bool causal_in_block) {
  if (block_size == 0 || context_end < 0) return {0, 0};
  const std::int32_t first = token / block_size * block_size;
  return {first, causal_in_block ? token + 1 : first + block_size};
}

struct QueryTile {
  IntervalBounds context, own;

  constexpr void include(const QueryTile& other) {
    context.include(other.context);
    own.include(other.own);
  }
  bool operator==(const QueryTile&) const = default;
};

enum class KeySource : std::int32_t { context, own };

struct QueryGroup {
  TileRange context, own;   // key slices
  std::int32_t offset = 0;  // of its ds, in key slices

  constexpr std::int32_t slices() const { return own.count() + context.count(); }
  constexpr bool sees_slice(KeySource source, std::int32_t slice) const {
    return source == KeySource::own ? own.contains(slice) : context.contains(slice);
  }
  constexpr bool sees_tile(KeySource source, std::int32_t tile) const {
    return sees_slice(source, tile * kTileSlices) || sees_slice(source, tile * kTileSlices + 1);
  }
  // Where the group's ds for a slice that it sees lies.
  constexpr std::int32_t place(KeySource source, std::int32_t slice) const {
    return offset + (source == KeySource::own ? slice - own.first : own.count() + slice - context.first);
  }
  bool operator==(const QueryGroup&) const = default;
};

struct KeyItem {
  KeySource source = KeySource::context;
  std::int32_t tile = 0;
  std::int32_t first_group = 0, last_group = 0;
  std::int32_t part = -1;  // where a split item leaves its partial sums; -1: it is whole

  constexpr std::int32_t length() const { return last_group - first_group; }
  bool operator==(const KeyItem&) const = default;
};

// A context tile whose gradients are sums over parts.
struct SplitTile {
  std::int32_t tile = 0, first_part = 0, parts = 0;
  bool operator==(const SplitTile&) const = default;
};

// Groups a part should have, given the groups of all items of one kv head.
constexpr std::int32_t part_length(std::int64_t total, std::int64_t kv_heads) {
  const std::int64_t parts = kBalancedProcessors * kPartsPerProcessor;
  return static_cast<std::int32_t>(
      std::max<std::int64_t>(kShortestPart, (total * kv_heads + parts - 1) / parts));
}
constexpr std::int32_t part_count(std::int32_t length, std::int32_t part_length) {
  return std::max(1, (length + part_length / 2) / part_length);
}
// Where part `index` of `count` begins.
constexpr std::int32_t part_begin(std::int32_t first, std::int32_t length, std::int32_t index,
                                  std::int32_t count) {
  return first + static_cast<std::int32_t>(static_cast<std::int64_t>(length) * index / count);
}

// Sizes of the arrays of a plan, from budgets alone. Without gradients there are tiles and forward items only.
struct PlanCapacity {
  std::int32_t query_tiles, groups, forward_tiles, context_tiles, own_tiles, key_items, parts, splits;
};

struct AttentionBudget {
  AttentionShape shape;
  std::int64_t rows = 0;          // query rows
  std::int64_t context_rows = 0;  // < 2^31
  bool gradients = true;          // false: the plan serves forward passes alone
};

// forward_tile_rows: packed rows of a forward item, a multiple of kQueryTileRows.
PlanCapacity plan_capacity(const AttentionBudget& budget, std::int32_t forward_tile_rows);

struct PlanCounts {
  std::int32_t key_items = 0, splits = 0, parts = 0;
  std::int32_t stored_slices = 0;  // of ds, over all groups of one kv head
  bool operator==(const PlanCounts&) const = default;
};

// One step's plan. Orders are longest first; equal lengths keep their order.
struct AttentionPlanArrays {
  std::vector<QueryTile> tiles;
  std::vector<std::int32_t> forward_order;  // forward tiles
  std::vector<QueryGroup> groups;
  std::vector<std::int32_t> group_order;
  std::vector<KeyItem> items;  // sorted
  std::vector<SplitTile> splits;
  PlanCounts counts;
};

AttentionPlanArrays build_attention_plan(const AttentionBudget& budget, const ContextIntervals& intervals,
                                         std::int32_t forward_tile_rows);

}  // namespace draftsmith
