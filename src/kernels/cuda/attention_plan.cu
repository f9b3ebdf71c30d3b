// Fills an AttentionPlan on the device: one warp per query tile finds its bounds, then one block of threads
// cuts and orders the items by the rules of attention_plan.h. Orders are found by counting, for each item,
// those that come before it: no atomics, equal results on every card.
#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_tile.cuh"

namespace draftsmith::cuda {

namespace {

constexpr int kTileThreads = 128;
constexpr int kPlanThreads = 1024;
constexpr unsigned kFullMask = 0xffffffffu;

__device__ IntervalBounds warp_merge(IntervalBounds bounds) {
  return {__reduce_min_sync(kFullMask, bounds.hull_begin), __reduce_max_sync(kFullMask, bounds.hull_end),
          __reduce_max_sync(kFullMask, bounds.core_begin), __reduce_min_sync(kFullMask, bounds.core_end)};
}

__global__ void __launch_bounds__(kTileThreads)
    tile_bounds_kernel(AttentionPlan plan, ContextIntervals intervals) {
  const std::int32_t tile = (blockIdx.x * kTileThreads + threadIdx.x) / 32;
  if (tile >= plan.capacity.query_tiles) return;
  const AttentionShape& shape = plan.budget.shape;
  const auto heads = static_cast<std::int32_t>(shape.query_heads / shape.kv_heads);
  const auto rows = static_cast<std::int32_t>(plan.budget.rows);
  QueryTile bounds;
  for (std::int32_t row = threadIdx.x % 32; row < kQueryTileRows; row += 32) {
    const auto token =
        static_cast<std::int32_t>((static_cast<std::int64_t>(tile) * kQueryTileRows + row) / heads);
    if (token >= rows || intervals.end.data[token] < 0) continue;
    const std::int32_t end = intervals.end.data[token];
    bounds.context.include(intervals.begin.data[token], end);
    const RowInterval own =
        own_interval(token, end, static_cast<std::int32_t>(shape.block_size), shape.causal_in_block);
    bounds.own.include(own.begin, own.end);
  }
  bounds.context = warp_merge(bounds.context);
  bounds.own = warp_merge(bounds.own);
  if (threadIdx.x % 32 == 0) plan.tiles.data[tile] = bounds;
}

__device__ QueryTile merged(const AttentionPlan& plan, std::int32_t first, std::int32_t count) {
  QueryTile all;
  const std::int32_t last = min(first + count, plan.capacity.query_tiles);
  for (std::int32_t tile = first; tile < last; ++tile) all.include(plan.tiles.data[tile]);
  return all;
}

// Shared memory of every ranking.
constexpr std::int32_t kCached = 4096;
__device__ std::int32_t* rank_cache() {
  __shared__ std::int32_t cached[kCached];
  return cached;
}

// place(index, rank) for every index: the rank in the order of longest first, equal lengths by index.
template <typename Place>
__device__ void rank_longest_first(const std::int32_t* lengths, std::int32_t count, const Place& place) {
  std::int32_t* cached = rank_cache();
  for (std::int32_t base = 0; base < count; base += kPlanThreads) {
    const std::int32_t i = base + threadIdx.x;
    const std::int32_t length = i < count ? lengths[i] : 0;
    std::int32_t rank = 0;
    for (std::int32_t first = 0; first < count; first += kCached) {
      const std::int32_t here = min(kCached, count - first);
      __syncthreads();
      for (std::int32_t j = threadIdx.x; j < here; j += kPlanThreads) cached[j] = lengths[first + j];
      __syncthreads();
      if (base + static_cast<std::int32_t>(threadIdx.x / 32 * 32) >= count) continue;
        // An equal length comes before when its index is lower.
#pragma unroll 8
      for (std::int32_t j = 0; j < here; ++j) rank += cached[j] + (first + j < i) > length;
    }
    if (i < count) place(i, rank);
  }
  __syncthreads();
}

// The sum of the values of lower threads; `total` is that of all.
__device__ std::int32_t exclusive_sum(std::int32_t value, std::int32_t& total) {
  __shared__ std::int32_t warp_sums[kPlanThreads / 32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  std::int32_t inclusive = value;
  for (int step = 1; step < 32; step *= 2) {
    const std::int32_t below = __shfl_up_sync(kFullMask, inclusive, step);
    if (lane >= step) inclusive += below;
  }
  __syncthreads();
  if (lane == 31) warp_sums[warp] = inclusive;
  __syncthreads();
  std::int32_t before = 0;
  total = 0;
  for (int i = 0; i < kPlanThreads / 32; ++i) {
    if (i < warp) before += warp_sums[i];
    total += warp_sums[i];
  }
  return before + inclusive - value;
}

__device__ void order_forward_tiles(const AttentionPlan& plan) {
  const std::int32_t count = plan.capacity.forward_tiles;
  const std::int32_t tiles = plan.forward_tile_rows / kQueryTileRows;
  for (std::int32_t item = threadIdx.x; item < count; item += kPlanThreads) {
    plan.forward_lengths.data[item] = merged(plan, item * tiles, tiles).context.tiles(kKeyTileRows).count();
  }
  __syncthreads();
  rank_longest_first(plan.forward_lengths.data, count,
                     [&](std::int32_t item, std::int32_t rank) { plan.forward_order.data[rank] = item; });
}

__device__ void make_groups(const AttentionPlan& plan, PlanCounts& counts) {
  for (std::int32_t first = 0; first < plan.capacity.groups; first += kPlanThreads) {
    const std::int32_t g = first + threadIdx.x;
    QueryGroup group;
    if (g < plan.capacity.groups) {
      const QueryTile all = merged(plan, g * kGroupTiles, kGroupTiles);
      group = {all.context.tiles(kKeySliceRows), all.own.tiles(kKeySliceRows), 0};
    }
    std::int32_t total = 0;
    group.offset = counts.stored_slices + exclusive_sum(group.slices(), total);
    counts.stored_slices += total;
    if (g < plan.capacity.groups) {
      plan.groups.data[g] = group;
      plan.lengths.data[g] = group.slices();
    }
  }
  __syncthreads();
  rank_longest_first(plan.lengths.data, plan.capacity.groups,
                     [&](std::int32_t g, std::int32_t rank) { plan.group_order.data[rank] = g; });
}

// Each key tile's first and last group that sees it: a warp per group offers it to the tiles in its ranges.
__device__ void find_groups(const AttentionPlan& plan) {
  const std::int32_t tiles = plan.capacity.context_tiles + plan.capacity.own_tiles;
  for (std::int32_t index = threadIdx.x; index < tiles; index += kPlanThreads) {
    const bool own = index >= plan.capacity.context_tiles;
    plan.unsorted.data[index] = {own ? KeySource::own : KeySource::context,
                                 own ? index - plan.capacity.context_tiles : index,
                                 std::numeric_limits<std::int32_t>::max(), 0};
  }
  __syncthreads();
  const auto offer = [&](TileRange slices, std::int32_t first_item, std::int32_t group) {
    const std::int32_t last = (slices.last + kTileSlices - 1) / kTileSlices;
    for (std::int32_t tile = slices.first / kTileSlices + threadIdx.x % 32; tile < last; tile += 32) {
      atomicMin(&plan.unsorted.data[first_item + tile].first_group, group);
      atomicMax(&plan.unsorted.data[first_item + tile].last_group, group + 1);
    }
  };
  for (std::int32_t g = threadIdx.x / 32; g < plan.capacity.groups; g += kPlanThreads / 32) {
    offer(plan.groups.data[g].context, 0, g);
    offer(plan.groups.data[g].own, plan.capacity.context_tiles, g);
  }
  __syncthreads();
  for (std::int32_t index = threadIdx.x; index < tiles; index += kPlanThreads) {
    KeyItem& item = plan.unsorted.data[index];
    if (item.last_group == 0) item.first_group = 0;
  }
  __syncthreads();
}

__device__ void make_items(const AttentionPlan& plan, PlanCounts& counts) {
  const std::int32_t tiles = plan.capacity.context_tiles + plan.capacity.own_tiles;
  find_groups(plan);
  std::int64_t total_length = 0;
  for (std::int32_t first = 0; first < tiles; first += kPlanThreads) {
    const std::int32_t index = first + threadIdx.x;
    std::int32_t total = 0;
    exclusive_sum(index < tiles ? plan.unsorted.data[index].length() : 0, total);
    total_length += total;
  }
  const std::int32_t part_groups = part_length(total_length, plan.budget.shape.kv_heads);
  // Parts are cut in place order, into the upper half of the scratch.
  KeyItem* parts = plan.unsorted.data + tiles;
  for (std::int32_t first = 0; first < tiles; first += kPlanThreads) {
    const std::int32_t index = first + threadIdx.x;
    KeyItem item;
    std::int32_t count = 0;
    if (index < tiles) {
      item = plan.unsorted.data[index];
      count = item.source == KeySource::own ? 1 : part_count(item.length(), part_groups);
    }
    const std::int32_t pieces = count > 1 ? count : 0;
    std::int32_t items = 0, sums = 0, splits = 0;
    const std::int32_t place = counts.key_items + exclusive_sum(count, items);
    const std::int32_t part = counts.parts + exclusive_sum(pieces, sums);
    const std::int32_t split = counts.splits + exclusive_sum(pieces > 0, splits);
    if (pieces > 0) plan.splits.data[split] = {item.tile, part, pieces};
    for (std::int32_t i = 0; i < count; ++i) {
      parts[place + i] = {item.source, item.tile, part_begin(item.first_group, item.length(), i, count),
                          part_begin(item.first_group, item.length(), i + 1, count),
                          pieces > 0 ? part + i : -1};
      plan.lengths.data[place + i] = parts[place + i].length();
    }
    counts.key_items += items;
    counts.parts += sums;
    counts.splits += splits;
  }
  __syncthreads();
  rank_longest_first(plan.lengths.data, counts.key_items,
                     [&](std::int32_t i, std::int32_t rank) { plan.items.data[rank] = parts[i]; });
}

// Two blocks: the forward order, and all that the backward pass needs.
__global__ void __launch_bounds__(kPlanThreads) plan_kernel(AttentionPlan plan) {
  if (blockIdx.x == 0) {
    order_forward_tiles(plan);
    if (threadIdx.x < 2) plan.tickets.data[threadIdx.x] = 0;
    return;
  }
  PlanCounts counts;
  make_groups(plan, counts);
  make_items(plan, counts);
  if (threadIdx.x == 0) plan.counts.data[0] = counts;
}

}  // namespace

AttentionPlan carve_attention_plan(Carver& carver, const AttentionBudget& budget, AttentionPath path) {
  int device = 0, processors = 0;
  check_cuda(cudaGetDevice(&device), "asking for the device");
  check_cuda(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
             "counting processors");
  AttentionPlan plan{.budget = budget,
                     .path = path,
                     .forward_tile_rows = forward_tile_rows(path),
                     .forward_blocks = processors};
  const PlanCapacity capacity = plan_capacity(budget, plan.forward_tile_rows);
  plan.capacity = capacity;
  // What the forward pass reads comes first: it finds its part of a plan for both passes without knowing of the rest.
  plan.tiles = carver.vector<QueryTile>(capacity.query_tiles);
  plan.forward_order = carver.vector<std::int32_t>(capacity.forward_tiles);
  plan.forward_lengths = carver.vector<std::int32_t>(capacity.forward_tiles);
  plan.tickets = carver.vector<std::int32_t>(2);
  plan.groups = carver.vector<QueryGroup>(capacity.groups);
  plan.group_order = carver.vector<std::int32_t>(capacity.groups);
  plan.items = carver.vector<KeyItem>(capacity.key_items);
  plan.splits = carver.vector<SplitTile>(capacity.splits);
  plan.counts = carver.vector<PlanCounts>(1);
  plan.unsorted = carver.vector<KeyItem>(2 * static_cast<std::int64_t>(capacity.key_items));
  plan.lengths = carver.vector<std::int32_t>(std::max(capacity.key_items, capacity.groups));
  return plan;
}

void fill_attention_plan(const AttentionPlan& plan, const ContextIntervals& intervals, cudaStream_t stream) {
  DRAFTSMITH_CHECK(intervals.begin.size == plan.budget.rows && intervals.end.size == plan.budget.rows,
                   "a plan is filled for the rows it was carved for");
  if (plan.budget.rows == 0) return;
  const int blocks = static_cast<int>(div_ceil(plan.capacity.query_tiles, kTileThreads / 32));
  tile_bounds_kernel<<<blocks, kTileThreads, 0, stream>>>(plan, intervals);
  check_launch("attention tile bounds");
  plan_kernel<<<plan.budget.gradients ? 2 : 1, kPlanThreads, 0, stream>>>(plan);
  check_launch("attention plan");
}

}  // namespace draftsmith::cuda
