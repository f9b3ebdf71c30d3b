// The Hopper backward's shared memory, its items, and the warp that brings them (attention_backward_hopper.cu).
#pragma once

#include "kernels/cuda/attention_hopper.cuh"

namespace draftsmith::cuda::backward {

inline constexpr int kStages = 3;
inline constexpr int kConsumers = kTileSlices;
inline constexpr int kConsumerKeys = kKeySliceRows;
inline constexpr int kConsumerWarps = 4 * kConsumers;
inline constexpr int kThreads = (kConsumers + 1) * kWarpgroup;

struct KeyGradientMaps {
  CUtensorMap query, grad_output, statistics, context_key, context_value, block_key, block_value;
};

// What the producer says about a step. Consumers read it by one thread a warp, the one that frees the slot.
struct alignas(16) KeyStep {
  enum Flag : std::int32_t {
    kLast = 1,     // nothing comes any more; the rest is void
    kMasked = 2,   // some row does not see all of the keys
    kVisible = 4,  // some row sees some keys of consumer 0; shifted left by one: of consumer 1
  };
  std::int32_t store_at[kConsumers];  // of ds, in query tiles by key slices; < 0: not stored
  std::int32_t flags;
};

template <int head_dim>
struct KeyGradientLayout {
  static constexpr int kPanels = head_dim / kPanelColumns;
  static constexpr int kKeyBytes = kKeyTileRows * head_dim * 2;
  static constexpr int kRowBytes = kQueryTileRows * head_dim * 2;
  static constexpr int kStagingBytes = kConsumerKeys * kQueryTileRows * 2;
  static constexpr int kRowsAt = 2 * kKeyBytes;
  static constexpr int kStagingAt = kRowsAt + kStages * 2 * kRowBytes;
  static constexpr int kStatisticsAt = kStagingAt + kConsumers * 2 * kStagingBytes;
  static constexpr int kStepsAt = kStatisticsAt + kStages * kStatisticBytes;
  static constexpr int kBarriersAt = kStepsAt + kStages * static_cast<int>(sizeof(KeyStep));
  static constexpr int kBytes = kBarriersAt + 8 * (1 + 2 * kStages) + 1024;
  static constexpr int kStageBytes = 2 * kRowBytes + kStatisticBytes;

  std::uint32_t base;
  unsigned char* generic;

  __device__ std::uint32_t key() const { return base; }
  __device__ std::uint32_t value() const { return base + kKeyBytes; }
  __device__ std::uint32_t query(int slot) const { return base + kRowsAt + slot * 2 * kRowBytes; }
  __device__ std::uint32_t grad_output(int slot) const { return query(slot) + kRowBytes; }
  __device__ std::uint32_t staging(int consumer, int which) const {
    return base + kStagingAt + (consumer * 2 + which) * kStagingBytes;
  }
  __device__ std::uint32_t statistics_address(int slot) const {
    return base + kStatisticsAt + slot * kStatisticBytes;
  }
  __device__ const float* statistics(int slot) const {
    return reinterpret_cast<const float*>(generic + kStatisticsAt + slot * kStatisticBytes);
  }
  __device__ KeyStep& step(int slot) const { return reinterpret_cast<KeyStep*>(generic + kStepsAt)[slot]; }
  __device__ Mbarrier keys_full() const { return {base + kBarriersAt}; }
  __device__ Mbarrier full(int slot) const { return {base + kBarriersAt + 8 * (1 + slot)}; }
  __device__ Mbarrier free(int slot) const { return {base + kBarriersAt + 8 * (1 + kStages + slot)}; }
};

// Which item and head a block of threads has, and whether ds is stored.
struct Assignment {
  KeyItem item;
  std::int32_t head;  // < 0: none
  std::int32_t head_in_round;
  bool stored;
  std::int32_t stored_slices;  // of ds, per head
};

__device__ inline Assignment assign(const AttentionPlan& plan, std::int32_t round,
                                    std::int64_t capacity_slices) {
  const PlanCounts counts = plan.counts.data[0];
  const auto kv_heads = static_cast<std::int32_t>(plan.budget.shape.kv_heads);
  const std::int32_t fitting = heads_in_round(capacity_slices, counts.stored_slices, kv_heads);
  const std::int32_t first = round * (fitting > 0 ? fitting : kv_heads);
  const std::int32_t heads = min(fitting > 0 ? fitting : kv_heads, kv_heads - first);
  const auto index = static_cast<std::int32_t>(blockIdx.x);
  if (heads <= 0 || index >= counts.key_items * heads) return {.head = -1};
  const ListPlace place = list_place(index, counts.key_items, heads);
  return {plan.items.data[place.index], first + place.head, place.head, fitting > 0, counts.stored_slices};
}

// A query tile's rows and statistics into a slot.
template <int head_dim>
__device__ void load_rows(const KeyGradientLayout<head_dim>& layout, const KeyGradientMaps& maps,
                          std::int32_t head, std::int32_t token, int slot, std::int32_t statistics) {
  using Layout = KeyGradientLayout<head_dim>;
  const Mbarrier full = layout.full(slot);
  full.arrive_expecting(Layout::kStageBytes);
  for (int panel = 0; panel < Layout::kPanels; ++panel) {
    const int at = panel * kQueryTileRows * 128, column = panel * kPanelColumns;
    load_box(layout.query(slot) + at, maps.query, column, head, token, full.address);
    load_box(layout.grad_output(slot) + at, maps.grad_output, column, head, token, full.address);
  }
  load_box(layout.statistics_address(slot), maps.statistics, 0, statistics, full.address);
}

template <int head_dim>
__device__ void produce(const KeyGradientLayout<head_dim>& layout, const KeyGradientMaps& maps,
                        const AttentionPlan& plan, const Assignment& assigned) {
  using Layout = KeyGradientLayout<head_dim>;
  const KeyItem& item = assigned.item;
  const bool own = item.source == KeySource::own;
  const std::int32_t first_key = item.tile * kKeyTileRows;
  if (item.length() > 0) {
    const CUtensorMap& key = own ? maps.block_key : maps.context_key;
    const CUtensorMap& value = own ? maps.block_value : maps.context_value;
    layout.keys_full().arrive_expecting(2 * Layout::kKeyBytes);
    for (int panel = 0; panel < Layout::kPanels; ++panel) {
      const int column = assigned.head * head_dim + panel * kPanelColumns;
      load_box(layout.key() + panel * kKeyTileRows * 128, key, column, first_key, layout.keys_full().address);
      load_box(layout.value() + panel * kKeyTileRows * 128, value, column, first_key,
               layout.keys_full().address);
    }
  }
  const auto heads = static_cast<std::int32_t>(plan.budget.shape.query_heads / plan.budget.shape.kv_heads);
  RingPlace<kStages> place;
  for (std::int32_t g = item.first_group; g < item.last_group; ++g) {
    const QueryGroup group = plan.groups.data[g];
    if (!group.sees_tile(item.source, item.tile)) continue;
    const std::int32_t last = min((g + 1) * kGroupTiles, plan.capacity.query_tiles);
    for (std::int32_t tile = g * kGroupTiles; tile < last; ++tile) {
      const QueryTile* bounds = plan.tiles.data + tile;
      const IntervalBounds seen = *(own ? &bounds->own : &bounds->context);
      layout.free(place.slot).wait(place.parity ^ 1);
      KeyStep step{{}, seen.sees_all(first_key, kKeyTileRows) ? 0 : KeyStep::kMasked};
#pragma unroll
      for (int consumer = 0; consumer < kConsumers; ++consumer) {
        const std::int32_t slice = item.tile * kTileSlices + consumer;
        const bool stored = assigned.stored && group.sees_slice(item.source, slice);
        step.store_at[consumer] =
            stored ? (assigned.head_in_round * assigned.stored_slices + group.place(item.source, slice)) *
                             kGroupTiles +
                         tile % kGroupTiles
                   : -1;
        if (seen.sees_any(slice * kKeySliceRows, kKeySliceRows)) step.flags |= KeyStep::kVisible << consumer;
      }
      layout.step(place.slot) = step;
      const Mbarrier full = layout.full(place.slot);
      if (seen.sees_any(first_key, kKeyTileRows)) {
        load_rows(layout, maps, assigned.head * heads, tile * kQueryTileRows / heads, place.slot,
                  (assigned.head * plan.capacity.query_tiles + tile) * static_cast<int>(Statistic::count));
      } else {
        full.arrive();
      }
      place.advance();
    }
  }
  layout.free(place.slot).wait(place.parity ^ 1);
  layout.step(place.slot).flags = KeyStep::kLast;
  layout.full(place.slot).arrive();
}

}  // namespace draftsmith::cuda::backward
