#include "kernels/attention_plan.h"

#include <numeric>

#include "base/arithmetic.h"

namespace draftsmith {

namespace {

std::vector<QueryTile> query_tiles(const AttentionBudget& budget, const ContextIntervals& intervals) {
  const std::int64_t heads = div_exact(budget.shape.query_heads, budget.shape.kv_heads);
  std::vector<QueryTile> tiles(static_cast<std::size_t>(div_ceil(budget.rows * heads, kQueryTileRows)));
  for (std::int64_t packed = 0; packed < budget.rows * heads; ++packed) {
    const auto token = static_cast<std::int32_t>(packed / heads);
    if (intervals.end[token] < 0) continue;
    QueryTile& tile = tiles[static_cast<std::size_t>(packed / kQueryTileRows)];
    tile.context.include(intervals.begin[token], intervals.end[token]);
    const RowInterval own =
        own_interval(token, intervals.end[token], static_cast<std::int32_t>(budget.shape.block_size),
                     budget.shape.causal_in_block);
    tile.own.include(own.begin, own.end);
  }
  return tiles;
}

QueryTile merged(const std::vector<QueryTile>& tiles, std::size_t first, std::size_t count) {
  QueryTile all;
  for (std::size_t i = first; i < std::min(first + count, tiles.size()); ++i) all.include(tiles[i]);
  return all;
}

template <typename Length>
std::vector<std::int32_t> longest_first(std::size_t count, const Length& length) {
  std::vector<std::int32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return length(a) > length(b); });
  return order;
}

std::vector<QueryGroup> query_groups(const std::vector<QueryTile>& tiles) {
  std::vector<QueryGroup> groups;
  std::int32_t offset = 0;
  for (std::size_t first = 0; first < tiles.size(); first += kGroupTiles) {
    const QueryTile all = merged(tiles, first, kGroupTiles);
    groups.push_back({all.context.tiles(kKeySliceRows), all.own.tiles(kKeySliceRows), offset});
    offset += groups.back().slices();
  }
  return groups;
}

KeyItem whole_item(const std::vector<QueryGroup>& groups, KeySource source, std::int32_t tile) {
  KeyItem item{.source = source, .tile = tile};
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (!groups[g].sees_tile(source, tile)) continue;
    if (item.length() == 0) item.first_group = static_cast<std::int32_t>(g);
    item.last_group = static_cast<std::int32_t>(g) + 1;
  }
  return item;
}

}  // namespace

PlanCapacity plan_capacity(const AttentionBudget& budget, std::int32_t forward_tile_rows) {
  const std::int64_t packed = budget.rows * div_exact(budget.shape.query_heads, budget.shape.kv_heads);
  const auto count = [](std::int64_t rows, std::int64_t by) {
    return narrow<std::int32_t>(div_ceil(rows, by));
  };
  PlanCapacity capacity{};
  capacity.query_tiles = count(packed, kQueryTileRows);
  capacity.forward_tiles = count(packed, forward_tile_rows);
  if (!budget.gradients) return capacity;
  capacity.groups = count(packed, kGroupRows);
  capacity.context_tiles = count(budget.context_rows, kKeyTileRows);
  capacity.own_tiles = budget.shape.block_size > 0 ? count(budget.rows, kKeyTileRows) : 0;
  // A split item has at least 1.5 parts' length, so it is cut into at most 4/3 of length / part_length.
  capacity.parts = count(4 * kBalancedProcessors * kPartsPerProcessor,
                         3 * std::max<std::int64_t>(1, budget.shape.kv_heads));
  capacity.splits = capacity.parts / 2;
  capacity.key_items = capacity.context_tiles + capacity.own_tiles + capacity.parts;
  return capacity;
}

AttentionPlanArrays build_attention_plan(const AttentionBudget& budget, const ContextIntervals& intervals,
                                         std::int32_t forward_tile_rows) {
  const PlanCapacity capacity = plan_capacity(budget, forward_tile_rows);
  AttentionPlanArrays plan;
  plan.tiles = query_tiles(budget, intervals);
  const auto tiles_per_item = static_cast<std::size_t>(forward_tile_rows / kQueryTileRows);
  plan.forward_order =
      longest_first(static_cast<std::size_t>(capacity.forward_tiles), [&](std::int32_t item) {
        return merged(plan.tiles, static_cast<std::size_t>(item) * tiles_per_item, tiles_per_item)
            .context.tiles(kKeyTileRows)
            .count();
      });
  if (!budget.gradients) return plan;
  plan.groups = query_groups(plan.tiles);
  plan.group_order = longest_first(plan.groups.size(), [&](std::int32_t group) {
    return plan.groups[static_cast<std::size_t>(group)].slices();
  });

  std::vector<KeyItem> items;
  std::int64_t total = 0;
  const auto add = [&](KeySource source, std::int32_t tiles) {
    for (std::int32_t tile = 0; tile < tiles; ++tile) {
      items.push_back(whole_item(plan.groups, source, tile));
      total += items.back().length();
    }
  };
  add(KeySource::context, capacity.context_tiles);
  add(KeySource::own, capacity.own_tiles);
  const std::int32_t length = part_length(total, budget.shape.kv_heads);
  std::vector<KeyItem> parts;
  for (const KeyItem& item : items) {
    const std::int32_t count = item.source == KeySource::own ? 1 : part_count(item.length(), length);
    if (count > 1) plan.splits.push_back({item.tile, plan.counts.parts, count});
    for (std::int32_t i = 0; i < count; ++i) {
      KeyItem part = item;
      part.first_group = part_begin(item.first_group, item.length(), i, count);
      part.last_group = part_begin(item.first_group, item.length(), i + 1, count);
      part.part = count > 1 ? plan.counts.parts++ : -1;
      parts.push_back(part);
    }
  }
  for (const std::int32_t index : longest_first(
           parts.size(), [&](std::int32_t i) { return parts[static_cast<std::size_t>(i)].length(); })) {
    plan.items.push_back(parts[static_cast<std::size_t>(index)]);
  }
  plan.counts.key_items = static_cast<std::int32_t>(plan.items.size());
  plan.counts.splits = static_cast<std::int32_t>(plan.splits.size());
  for (const QueryGroup& group : plan.groups) plan.counts.stored_slices += group.slices();
  return plan;
}

}  // namespace draftsmith
