// The Hopper forward's shared memory, its items, and the warp that brings them (attention_forward_hopper.cu).
#pragma once

#include "kernels/cuda/attention_hopper.cuh"

namespace draftsmith::cuda::forward {

inline constexpr int kConsumers = 3;
inline constexpr int kConsumerWarps = 4 * kConsumers;
inline constexpr int kThreads = (kConsumers + 1) * kWarpgroup;
inline constexpr int kStages = 2;
inline constexpr int kQuerySlots = 2;  // the next item's queries come while an item is worked on
inline constexpr int kOwnKeys = 64;
// Together what a block of kThreads has at its entry, 128 each.
inline constexpr int kConsumerRegisters = 160;
inline constexpr int kProducerRegisters = 32;

struct ForwardMaps {
  CUtensorMap query, context_key, context_value, block_key, block_value;
};

// What the producer tells the consumers with the queries.
struct ForwardItem {
  std::int32_t first_row;  // packed; < 0: no more items
  std::int32_t kv_head;
  std::int32_t own_first, own_steps;
  std::int32_t first_tile, last_tile;  // of the context
  std::int32_t first_core, last_core;  // tiles that every row sees whole

  __device__ std::int32_t steps() const { return first_row < 0 ? 0 : own_steps + last_tile - first_tile; }
  // Own steps first, then context tiles from the last to the first.
  __device__ std::int32_t first_key(std::int32_t step) const {
    return step < own_steps ? own_first + step * kOwnKeys
                            : (last_tile - 1 - (step - own_steps)) * kKeyTileRows;
  }
};

template <int head_dim>
struct ForwardLayout {
  static constexpr int kPanels = head_dim / kPanelColumns;
  static constexpr int kSlabBytes = kQueryTileRows * head_dim * 2;  // of one consumer
  static constexpr int kSlotBytes = kKeyTileRows * head_dim * 2;
  static constexpr int kQueryBytes = kConsumers * kSlabBytes;
  static constexpr int kKeysAt = kQuerySlots * kQueryBytes;
  static constexpr int kValuesAt = kKeysAt + kStages * kSlotBytes;
  static constexpr int kItemAt = kValuesAt + kStages * kSlotBytes;
  static constexpr int kBarriersAt = kItemAt + kQuerySlots * static_cast<int>(sizeof(ForwardItem));
  static constexpr int kBytes = kBarriersAt + 8 * (2 * kQuerySlots + 4 * kStages) + 1024;  // base rounded up

  std::uint32_t base;
  unsigned char* generic;

  __device__ std::uint32_t slab(int slot, int consumer) const {
    return base + slot * kQueryBytes + consumer * kSlabBytes;
  }
  __device__ std::uint32_t key(int slot) const { return base + kKeysAt + slot * kSlotBytes; }
  __device__ std::uint32_t value(int slot) const { return base + kValuesAt + slot * kSlotBytes; }
  __device__ ForwardItem& item(int slot) const {
    return reinterpret_cast<ForwardItem*>(generic + kItemAt)[slot];
  }
  __device__ Mbarrier barrier(int index) const { return {base + kBarriersAt + 8 * index}; }
  __device__ Mbarrier query_full(int slot) const { return barrier(slot); }
  __device__ Mbarrier query_free(int slot) const { return barrier(kQuerySlots + slot); }
  __device__ Mbarrier key_full(int slot) const { return barrier(2 * kQuerySlots + slot); }
  __device__ Mbarrier key_free(int slot) const { return barrier(2 * kQuerySlots + kStages + slot); }
  __device__ Mbarrier value_full(int slot) const { return barrier(2 * kQuerySlots + 2 * kStages + slot); }
  __device__ Mbarrier value_free(int slot) const { return barrier(2 * kQuerySlots + 3 * kStages + slot); }
};

__device__ inline ForwardItem forward_item(const AttentionPlan& plan, std::int32_t index) {
  const std::int32_t tiles = plan.capacity.forward_tiles;
  const auto kv_heads = static_cast<std::int32_t>(plan.budget.shape.kv_heads);
  if (index >= tiles * kv_heads) return {.first_row = -1};
  const ListPlace place = list_place(index, tiles, kv_heads);
  const std::int32_t tile = plan.forward_order.data[place.index];
  const std::int32_t query_tiles = plan.forward_tile_rows / kQueryTileRows;
  QueryTile bounds;
  for (std::int32_t i = tile * query_tiles; i < min((tile + 1) * query_tiles, plan.capacity.query_tiles);
       ++i) {
    bounds.include(plan.tiles.data[i]);
  }
  const TileRange range = bounds.context.tiles(kKeyTileRows);
  const std::int32_t own_rows = max(0, bounds.own.hull_end - bounds.own.hull_begin);
  return {.first_row = tile * plan.forward_tile_rows,
          .kv_head = place.head,
          .own_first = bounds.own.hull_begin,
          .own_steps = bounds.own.hull_begin < bounds.own.hull_end ? (own_rows + kOwnKeys - 1) / kOwnKeys : 0,
          .first_tile = range.first,
          .last_tile = range.last,
          .first_core = (bounds.context.core_begin + kKeyTileRows - 1) / kKeyTileRows,
          .last_core = bounds.context.core_end / kKeyTileRows};
}

template <int head_dim>
struct ForwardProducer {
  using Layout = ForwardLayout<head_dim>;
  const Layout& layout;
  const ForwardMaps& maps;
  RingPlace<kStages> keys, values;
  RingPlace<kQuerySlots> queries;

  // One tile of `rows` rows into a slot: a box per panel.
  __device__ static void load(std::uint32_t to, const CUtensorMap& map, int rows, int column, int row,
                              const Mbarrier& full) {
    full.arrive_expecting(rows * head_dim * 2);
#pragma unroll
    for (int panel = 0; panel < Layout::kPanels; ++panel) {
      load_box(to + panel * rows * 128, map, column + panel * kPanelColumns, row, full.address);
    }
  }
  __device__ void load_keys(const ForwardItem& item, std::int32_t step) {
    layout.key_free(keys.slot).wait(keys.parity ^ 1);
    const bool own = step < item.own_steps;
    load(layout.key(keys.slot), own ? maps.block_key : maps.context_key, own ? kOwnKeys : kKeyTileRows,
         item.kv_head * head_dim, item.first_key(step), layout.key_full(keys.slot));
    keys.advance();
  }
  __device__ void load_values(const ForwardItem& item, std::int32_t step) {
    layout.value_free(values.slot).wait(values.parity ^ 1);
    const bool own = step < item.own_steps;
    load(layout.value(values.slot), own ? maps.block_value : maps.context_value,
         own ? kOwnKeys : kKeyTileRows, item.kv_head * head_dim, item.first_key(step),
         layout.value_full(values.slot));
    values.advance();
  }

  // The queries of an item, and the item itself, which the consumers read once the queries are there.
  __device__ void load_query(const ForwardItem& item, std::int32_t heads) {
    layout.query_free(queries.slot).wait(queries.parity ^ 1);
    layout.item(queries.slot) = item;
    const Mbarrier full = layout.query_full(queries.slot);
    if (item.first_row < 0) {
      full.arrive();
      return;
    }
    full.arrive_expecting(Layout::kQueryBytes);
#pragma unroll
    for (int consumer = 0; consumer < kConsumers; ++consumer) {
#pragma unroll
      for (int panel = 0; panel < Layout::kPanels; ++panel) {
        load_box(layout.slab(queries.slot, consumer) + panel * kQueryTileRows * 128, maps.query,
                 panel * kPanelColumns, item.kv_head * heads,
                 (item.first_row + consumer * kQueryTileRows) / heads, full.address);
      }
    }
    queries.advance();
  }

  // Keys run one step ahead of values.
  __device__ void run(const AttentionPlan& plan) {
    const auto heads = static_cast<std::int32_t>(plan.budget.shape.query_heads / plan.budget.shape.kv_heads);
    auto ticket = static_cast<std::int32_t>(blockIdx.x);
    while (true) {
      // Kept in shared memory: a producer has few registers.
      const ForwardItem& item = layout.item(queries.slot);
      load_query(forward_item(plan, ticket), heads);
      if (item.first_row < 0) break;
      const std::int32_t steps = item.steps();
      if (steps > 0) load_keys(item, 0);
      for (std::int32_t step = 0; step < steps; ++step) {
        if (step + 1 < steps) load_keys(item, step + 1);
        load_values(item, step);
      }
      ticket = atomicAdd(&plan.tickets.data[0], 1) + static_cast<std::int32_t>(gridDim.x);
    }
    // The last block to leave resets the counters for the next launch.
    if (atomicAdd(&plan.tickets.data[1], 1) == static_cast<std::int32_t>(gridDim.x) - 1) {
      plan.tickets.data[0] = 0;
      plan.tickets.data[1] = 0;
    }
  }
};

}  // namespace draftsmith::cuda::forward
