// grad_query = scale * ds k on Hopper, from the ds that attention_backward_hopper.cu stored: one product per
// (group of 256 packed rows, kv head), over the group's own keys and then its context keys in order, 64 at a
// time. Two consumer warpgroups own 128 rows each.
#include "kernels/cuda/attention_hopper.cuh"

namespace draftsmith::cuda {

namespace {

constexpr int kStages = 4;
constexpr int kConsumers = 2;
constexpr int kTilesPerConsumer = kGroupTiles / kConsumers;
[[maybe_unused]] constexpr int kConsumerWarps = 4 * kConsumers;
constexpr int kThreads = (kConsumers + 1) * kWarpgroup;
constexpr int kTileBytes = kKeySliceRows * kQueryTileRows * 2;  // of ds: one step by one query tile

struct QueryGradientMaps {
  CUtensorMap context_key, block_key;
};

template <int head_dim>
struct QueryGradientLayout {
  static constexpr int kScoreBytes = kGroupTiles * kTileBytes;
  static constexpr int kKeyBytes = kKeySliceRows * head_dim * 2;
  static constexpr int kStageBytes = kScoreBytes + kKeyBytes;
  static constexpr int kBarriersAt = kStages * kStageBytes;
  static constexpr int kBytes = kBarriersAt + 8 * 2 * kStages + 1024;

  std::uint32_t base;

  __device__ std::uint32_t scores(int slot) const { return base + slot * kStageBytes; }
  __device__ std::uint32_t key(int slot) const { return scores(slot) + kScoreBytes; }
  __device__ Mbarrier full(int slot) const { return {base + kBarriersAt + 8 * slot}; }
  __device__ Mbarrier free(int slot) const { return {base + kBarriersAt + 8 * (kStages + slot)}; }
};

template <int head_dim>
__device__ void produce(const QueryGradientLayout<head_dim>& layout, const QueryGradientMaps& maps,
                        const QueryGroup& group, const bf16* scores, std::int32_t head) {
  using Layout = QueryGradientLayout<head_dim>;
  RingPlace<kStages> place;
  const std::int32_t own_steps = group.own.count(), steps = group.slices();
  for (std::int32_t step = 0; step < steps; ++step) {
    const bool own = step < own_steps;
    const std::int32_t row =
        (own ? group.own.first + step : group.context.first + step - own_steps) * kKeySliceRows;
    layout.free(place.slot).wait(place.parity ^ 1);
    const Mbarrier full = layout.full(place.slot);
    full.arrive_expecting(Layout::kStageBytes);
    load_bytes(layout.scores(place.slot), scores, Layout::kScoreBytes, full.address);
    for (int panel = 0; panel < head_dim / kPanelColumns; ++panel) {
      load_box(layout.key(place.slot) + panel * kKeySliceRows * 128, own ? maps.block_key : maps.context_key,
               head * head_dim + panel * kPanelColumns, row, full.address);
    }
    scores += Layout::kScoreBytes / 2;
    place.advance();
  }
}

template <int head_dim>
__device__ void consume(const QueryGradientLayout<head_dim>& layout, std::int32_t steps,
                        float (&sums)[kTilesPerConsumer][head_dim / 2], int consumer) {
  RingPlace<kStages> place;
  int previous = -1;  // slot whose products may still be in flight
  for (std::int32_t step = 0; step < steps; ++step) {
    layout.full(place.slot).wait(place.parity);
    wgmma_fence();
    const std::uint64_t right = describe(layout.key(place.slot), kKeySliceRows * 128);
#pragma unroll
    for (int tile = 0; tile < kTilesPerConsumer; ++tile) {
      const std::uint64_t left = describe(
          layout.scores(place.slot) + (consumer * kTilesPerConsumer + tile) * kTileBytes, kTileBytes);
#pragma unroll
      for (int depth = 0; depth < kKeySliceRows / 16; ++depth) {
        multiply<Lies::by_columns, Lies::by_columns>(sums[tile], left + further(depth * 2048),
                                                     right + further(depth * 2048), step > 0 || depth > 0);
      }
    }
    wgmma_commit();
    wgmma_wait<1>();
    if (previous >= 0 && threadIdx.x % 32 == 0) layout.free(previous).arrive();
    previous = place.slot;
    place.advance();
  }
  wgmma_wait<0>();
#pragma unroll
  for (int tile = 0; tile < kTilesPerConsumer; ++tile) {
    hold(sums[tile]);
    if (steps > 0) continue;
#pragma unroll
    for (int i = 0; i < head_dim / 2; ++i) sums[tile][i] = 0;
  }
}

struct QueryGradientScratch {
  const bf16* grad_scores;
  std::int64_t capacity_slices;
  std::int32_t round;
};

// A consumer's rows, packed rows from `first_row` on.
template <int head_dim>
__device__ void store_rows(const float (&sums)[kTilesPerConsumer][head_dim / 2],
                           const AttentionBackward<bf16>& arguments, std::int32_t head,
                           std::int32_t first_row) {
  const PackedRows packed{static_cast<std::int32_t>(arguments.shape.query_heads / arguments.shape.kv_heads),
                          static_cast<std::int32_t>(arguments.query.rows), head};
  const float scale = arguments.shape.scale;
#pragma unroll
  for (int tile = 0; tile < kTilesPerConsumer; ++tile) {
#pragma unroll
    for (int i = 0; i < head_dim / 2; i += 2) {
      const FragmentPlace at = fragment_place(i);
      const std::int32_t row = first_row + tile * kQueryTileRows + at.row;
      if (!packed.inside(row)) continue;
      bf16* to = arguments.grad_query.row(packed.token(row)) +
                 static_cast<std::int64_t>(packed.head(row)) * head_dim;
      *reinterpret_cast<std::uint32_t*>(to + at.column) =
          pack_bf16(sums[tile][i] * scale, sums[tile][i + 1] * scale);
    }
  }
}

template <int head_dim>
__device__ __forceinline__ void query_gradient_block(const QueryGradientMaps& maps,
                                                     const AttentionBackward<bf16>& arguments,
                                                     const AttentionPlan& plan,
                                                     const QueryGradientScratch& scratch) {
  const std::int32_t stored = plan.counts.data->stored_slices;
  const auto kv_heads = static_cast<std::int32_t>(arguments.shape.kv_heads);
  const std::int32_t fitting = heads_in_round(scratch.capacity_slices, stored, kv_heads);
  const std::int32_t first_head = scratch.round * fitting, heads = min(fitting, kv_heads - first_head);
  const auto index = static_cast<std::int32_t>(blockIdx.x);
  if (heads <= 0 || index >= plan.capacity.groups * heads) return;
  const ListPlace place = list_place(index, plan.capacity.groups, heads);
  const std::int32_t g = plan.group_order.data[place.index], head = first_head + place.head;
  const QueryGroup group = plan.groups.data[g];

  extern __shared__ unsigned char shared[];
  const QueryGradientLayout<head_dim> layout{(shared_address(shared) + 1023) & ~1023u};
  if (threadIdx.x == 0) {
    for (int slot = 0; slot < kStages; ++slot) {
      layout.full(slot).init(1);
      layout.free(slot).init(kConsumerWarps);
    }
    fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x < kWarpgroup) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 0) {
      const std::int64_t at =
          (static_cast<std::int64_t>(place.head) * stored + group.offset) * kGradScoreSlice;
      produce<head_dim>(layout, maps, group, scratch.grad_scores + at, head);
    }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  const int consumer = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / kWarpgroup, 0) - 1;
  float sums[kTilesPerConsumer][head_dim / 2];
  consume<head_dim>(layout, group.slices(), sums, consumer);
  store_rows<head_dim>(sums, arguments, head, g * kGroupRows + consumer * kTilesPerConsumer * kQueryTileRows);
}

template <int head_dim>
__global__ void __launch_bounds__(kThreads, 1)
    hopper_query_gradient_kernel(const __grid_constant__ QueryGradientMaps maps,
                                 const __grid_constant__ AttentionBackward<bf16> arguments,
                                 const __grid_constant__ AttentionPlan plan,
                                 const __grid_constant__ QueryGradientScratch scratch) {
  if constexpr (kHopperTarget) query_gradient_block<head_dim>(maps, arguments, plan, scratch);
}

template <int head_dim>
void launch(const AttentionBackward<bf16>& arguments, const AttentionPlan& plan,
            const QueryGradientScratch& scratch, cudaStream_t stream) {
  const bool has_blocks = arguments.shape.block_size > 0;
  const QueryGradientMaps maps{
      .context_key = panel_map(arguments.context_key, kKeySliceRows),
      .block_key = panel_map(has_blocks ? arguments.block_key : arguments.context_key, kKeySliceRows)};
  const auto blocks = static_cast<unsigned>(plan.capacity.groups * arguments.shape.kv_heads);
  hopper_query_gradient_kernel<head_dim>
      <<<blocks, kThreads, QueryGradientLayout<head_dim>::kBytes, stream>>>(maps, arguments, plan, scratch);
}

}  // namespace

void launch_hopper_query_gradient(const AttentionBackward<bf16>& arguments, const AttentionPlan& plan,
                                  const AttentionGradientScratch& scratch, std::int32_t round,
                                  cudaStream_t stream) {
  const QueryGradientScratch used{.grad_scores = scratch.grad_scores.data,
                                  .capacity_slices = scratch.grad_scores.size / kGradScoreSlice,
                                  .round = round};
  if (arguments.shape.head_dim == 128) {
    launch<128>(arguments, plan, used, stream);
  } else {
    launch<64>(arguments, plan, used, stream);
  }
  check_launch("Hopper attention query gradient");
}

void prepare_hopper_query_gradient() {
  allow_shared_memory(hopper_query_gradient_kernel<128>, QueryGradientLayout<128>::kBytes);
  allow_shared_memory(hopper_query_gradient_kernel<64>, QueryGradientLayout<64>::kBytes);
}

}  // namespace draftsmith::cuda
