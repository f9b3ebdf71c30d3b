// Attention backward on Hopper: gradients of keys and values, and ds. One block of threads per item of the
// plan (128 keys of one kv head, and the groups of packed rows that see them). A producer warp brings 64
// packed rows of q and grad_o a step; two consumer warpgroups own 64 keys each, neither waiting for the
// other:
//   p^T = 2^(k q^T c - log2 sum), dv += p^T grad_o, ds^T = p^T (v grad_o^T - delta), dk += ds^T q
// with sums over the heads of a kv head and over rows in the order of packed rows. ds^T goes out in bf16, in
// the layout that attention_query_gradient_hopper.cu multiplies. Parts of split items leave float sums, which
// a last kernel adds in order.
#include "kernels/cuda/attention_backward_producer.cuh"

namespace draftsmith::cuda {

namespace backward {
namespace {

template <int head_dim>
struct KeyGradientConsumer {
  using Layout = KeyGradientLayout<head_dim>;
  const Layout& layout;
  const AttentionBackward<bf16>& arguments;
  int consumer;
  int turn;  // of the staging tiles
  float grad_key[head_dim / 2], grad_value[head_dim / 2];

  // scores [64 keys, 64 packed rows] = keys times rows, in flight.
  __device__ static void issue(float (&scores)[32], std::uint32_t keys, std::uint32_t rows) {
    const std::uint64_t left = describe(keys, 16), right = describe(rows, 16);
#pragma unroll
    for (int depth = 0; depth < head_dim / 16; ++depth) {
      const int panel = depth / 4, inside = depth % 4 * 32;
      multiply<Lies::by_rows, Lies::by_rows>(scores, left + further(panel * kKeyTileRows * 128 + inside),
                                             right + further(panel * kQueryTileRows * 128 + inside),
                                             depth > 0);
    }
    wgmma_commit();
  }
  // sums [64 keys, head_dim] += coefficients times rows, in flight.
  __device__ static void issue_sum(float (&sums)[head_dim / 2], const std::uint32_t (&coefficients)[4][4],
                                   std::uint32_t rows) {
    const std::uint64_t right = describe(rows, kQueryTileRows * 128);
    wgmma_fence();
#pragma unroll
    for (int depth = 0; depth < kQueryTileRows / 16; ++depth) {
      multiply<Lies::by_columns>(sums, coefficients[depth], right + further(depth * 2048));
    }
    wgmma_commit();
  }

  // p^T of the step from scores, masked where some row does not see all keys; `begin_at` is where the intervals
  // of the item's source lie.
  __device__ static void soften(float (&p)[32], const float* statistics, float log2_scale) {
#pragma unroll
    for (int i = 0; i < 32; i += 4) {
      const float2 sums =
          *reinterpret_cast<const float2*>(statistics + statistic_place(Statistic::log2_sum_exp) + i * 2);
      p[i] = exp2_fast(fmaf(p[i], log2_scale, -sums.x));
      p[i + 1] = exp2_fast(fmaf(p[i + 1], log2_scale, -sums.y));
      p[i + 2] = exp2_fast(fmaf(p[i + 2], log2_scale, -sums.x));
      p[i + 3] = exp2_fast(fmaf(p[i + 3], log2_scale, -sums.y));
    }
  }
  __device__ static void mask(float (&p)[32], const float* begins, std::int32_t key) {
#pragma unroll
    for (int i = 0; i < 32; i += 4) {
      const int2 begin = *reinterpret_cast<const int2*>(begins + i * 2);
      const int2 end = *reinterpret_cast<const int2*>(begins + kQueryTileRows + i * 2);
      if (key < begin.x || key >= end.x) p[i] = 0;
      if (key < begin.y || key >= end.y) p[i + 1] = 0;
      if (key + 8 < begin.x || key + 8 >= end.x) p[i + 2] = 0;
      if (key + 8 < begin.y || key + 8 >= end.y) p[i + 3] = 0;
    }
  }
  // dp^T becomes ds^T.
  __device__ static void differentiate(float (&ds)[32], const float (&p)[32], const float* statistics) {
#pragma unroll
    for (int i = 0; i < 32; i += 4) {
      const float2 delta =
          *reinterpret_cast<const float2*>(statistics + statistic_place(Statistic::delta) + i * 2);
      ds[i] = p[i] * (ds[i] - delta.x);
      ds[i + 1] = p[i + 1] * (ds[i + 1] - delta.y);
      ds[i + 2] = p[i + 2] * (ds[i + 2] - delta.x);
      ds[i + 3] = p[i + 3] * (ds[i + 3] - delta.y);
    }
  }
  __device__ static void pack(const float (&values)[32], std::uint32_t (&packed)[4][4]) {
#pragma unroll
    for (int i = 0; i < 16; ++i) packed[i / 4][i % 4] = pack_bf16(values[2 * i], values[2 * i + 1]);
  }

  // ds^T, [64 keys, 64 packed rows], goes out through one of two swizzled staging tiles by turns.
  __device__ void send(const std::uint32_t (&ds)[4][4], bf16* to) {
    const int lane = threadIdx.x % 32, row = threadIdx.x % kWarpgroup / 32 * 16 + lane % 16;
#pragma unroll
    for (int block = 0; block < 4; ++block) {
      const int chunk = (block * 2 + lane / 16) ^ row % 8;
      store_matrices(layout.staging(consumer, turn) + row * 128 + chunk * 16, ds[block]);
    }
    fence_async_proxy();
    const bool elected = threadIdx.x % kWarpgroup == 0;
    if (elected) wait_stores_read<0>();  // of the send before: the barrier frees its staging for the next
    named_barrier(1 + consumer, kWarpgroup);
    if (elected) {
      store_bytes(to, layout.staging(consumer, turn), Layout::kStagingBytes);
      commit_stores();
    }
    turn ^= 1;
  }

  __device__ void run(const Assignment& assigned, bf16* grad_scores) {
    const bool own = assigned.item.source == KeySource::own;
    const FragmentPlace mine = fragment_place(0);
    const std::int32_t my_key = assigned.item.tile * kKeyTileRows + consumer * kConsumerKeys + mine.row;
    const float log2_scale = arguments.shape.scale * kLog2E;
    const int begins = statistic_place(own ? Statistic::own_begin : Statistic::context_begin);
    const std::uint32_t keys = layout.key() + consumer * kConsumerKeys * 128;
    const std::uint32_t values = layout.value() + consumer * kConsumerKeys * 128;
#pragma unroll
    for (int i = 0; i < head_dim / 2; ++i) grad_key[i] = grad_value[i] = 0;
    if (assigned.item.length() > 0) layout.keys_full().wait(0);
    for (RingPlace<kStages> place;; place.advance()) {
      layout.full(place.slot).wait(place.parity);
      std::int32_t store_at = 0, flags = 0;
      if (threadIdx.x % 32 == 0) {
        store_at = layout.step(place.slot).store_at[consumer];
        flags = layout.step(place.slot).flags;
      }
      store_at = __shfl_sync(0xffffffffu, store_at, 0);
      flags = __shfl_sync(0xffffffffu, flags, 0);
      if (flags & KeyStep::kLast) break;
      bf16* to = grad_scores + static_cast<std::int64_t>(store_at) * (kConsumerKeys * kQueryTileRows);
      std::uint32_t packed[4][4], packed_ds[4][4] = {};
      if (flags & KeyStep::kVisible << consumer) {
        const float* statistics = layout.statistics(place.slot) + mine.column;
        float p[32], ds[32];
        wgmma_fence();
        issue(p, keys, layout.query(place.slot));
        issue(ds, values, layout.grad_output(place.slot));
        wgmma_wait<1>();
        hold(p);
        soften(p, statistics, log2_scale);
        if (flags & KeyStep::kMasked) mask(p, statistics + begins, my_key);
        pack(p, packed);
        wgmma_wait<0>();
        issue_sum(grad_value, packed, layout.grad_output(place.slot));
        hold(ds);  // after the product was issued, so that the arithmetic below runs beside it
        differentiate(ds, p, statistics);
        pack(ds, packed_ds);
        issue_sum(grad_key, packed_ds, layout.query(place.slot));
        if (store_at >= 0) send(packed_ds, to);
        wgmma_wait<0>();
        hold(grad_value);
        hold(grad_key);
      } else if (store_at >= 0) {
        send(packed_ds, to);
      }
      __syncwarp();
      if (threadIdx.x % 32 == 0) layout.free(place.slot).arrive();
    }
    if (threadIdx.x % kWarpgroup == 0) wait_stores();
  }

  __device__ void store(const Assignment& assigned) {
    const bool own = assigned.item.source == KeySource::own;
    const Matrix<bf16>& key_to = own ? arguments.grad_block_key : arguments.grad_context_key;
    const Matrix<bf16>& value_to = own ? arguments.grad_block_value : arguments.grad_context_value;
#pragma unroll
    for (int i = 0; i < head_dim / 2; i += 2) {
      const FragmentPlace at = fragment_place(i);
      const std::int32_t row = assigned.item.tile * kKeyTileRows + consumer * kConsumerKeys + at.row;
      if (row >= key_to.rows) continue;
      const std::int64_t column = static_cast<std::int64_t>(assigned.head) * head_dim + at.column;
      const float scale = arguments.shape.scale;
      *reinterpret_cast<std::uint32_t*>(key_to.row(row) + column) =
          pack_bf16(grad_key[i] * scale, grad_key[i + 1] * scale);
      *reinterpret_cast<std::uint32_t*>(value_to.row(row) + column) =
          pack_bf16(grad_value[i], grad_value[i + 1]);
    }
  }

  // [2, consumers, head_dim / 2, 128 threads]
  __device__ void store_part(float* to) {
    to += consumer * (head_dim / 2) * kWarpgroup + threadIdx.x % kWarpgroup;
#pragma unroll
    for (int i = 0; i < head_dim / 2; ++i) {
      to[i * kWarpgroup] = grad_key[i];
      to[kKeyTileRows * head_dim + i * kWarpgroup] = grad_value[i];
    }
  }
};

template <int head_dim>
__device__ float* part_sums(float* sums, const AttentionPlan& plan, std::int32_t head, std::int32_t part) {
  return sums + (static_cast<std::int64_t>(head) * plan.capacity.parts + part) * 2 * kKeyTileRows * head_dim;
}

struct KeyGradientScratch {
  bf16* grad_scores;
  float* partial_sums;
  std::int64_t capacity_slices;
  std::int32_t round;
};

template <int head_dim>
__device__ __forceinline__ void key_gradient_block(const KeyGradientMaps& maps,
                                                   const AttentionBackward<bf16>& arguments,
                                                   const AttentionPlan& plan,
                                                   const KeyGradientScratch& scratch) {
  const Assignment assigned = assign(plan, scratch.round, scratch.capacity_slices);
  if (assigned.head < 0) return;
  extern __shared__ unsigned char shared[];
  const std::uint32_t start = shared_address(shared), base = (start + 1023) & ~1023u;
  const KeyGradientLayout<head_dim> layout{base, shared + (base - start)};
  if (threadIdx.x == 0) {
    layout.keys_full().init(1);
    for (int slot = 0; slot < kStages; ++slot) {
      layout.full(slot).init(1);
      layout.free(slot).init(kConsumerWarps);
    }
    fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x < kWarpgroup) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
    if (threadIdx.x == 0) produce<head_dim>(layout, maps, plan, assigned);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    const int consumer = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / kWarpgroup, 0) - 1;
    KeyGradientConsumer<head_dim> state{layout, arguments, consumer, 0};
    state.run(assigned, scratch.grad_scores);
    if (assigned.item.part < 0) {
      state.store(assigned);
    } else {
      state.store_part(part_sums<head_dim>(scratch.partial_sums, plan, assigned.head, assigned.item.part));
    }
  }
}

template <int head_dim>
__global__ void __launch_bounds__(kThreads, 1)
    hopper_key_gradient_kernel(const __grid_constant__ KeyGradientMaps maps,
                               const __grid_constant__ AttentionBackward<bf16> arguments,
                               const __grid_constant__ AttentionPlan plan,
                               const __grid_constant__ KeyGradientScratch scratch) {
  if constexpr (kHopperTarget) key_gradient_block<head_dim>(maps, arguments, plan, scratch);
}

// Blocks of threads for each split tile and kv head add the parts in order, kSumsPerThread sums of dk and dv a thread.
constexpr int kSumsPerThread = 4;

template <int head_dim>
__global__ void __launch_bounds__(kConsumers* kWarpgroup)
    add_parts_kernel(AttentionBackward<bf16> arguments, AttentionPlan plan, float* partial_sums) {
  if (static_cast<std::int32_t>(blockIdx.x) >= plan.counts.data->splits) return;
  const SplitTile split = plan.splits.data[blockIdx.x];
  const auto head = static_cast<std::int32_t>(blockIdx.y),
             first = static_cast<std::int32_t>(blockIdx.z) * kSumsPerThread;
  const int consumer = threadIdx.x / kWarpgroup;
  const float* from = part_sums<head_dim>(partial_sums, plan, head, split.first_part) +
                      (consumer * (head_dim / 2) + first) * kWarpgroup + threadIdx.x % kWarpgroup;
  constexpr int kMatrix = kKeyTileRows * head_dim;
  float key[kSumsPerThread] = {}, value[kSumsPerThread] = {};
  for (std::int32_t part = 0; part < split.parts; ++part, from += 2 * kMatrix) {
#pragma unroll
    for (int i = 0; i < kSumsPerThread; ++i) {
      key[i] += from[i * kWarpgroup];
      value[i] += from[kMatrix + i * kWarpgroup];
    }
  }
  const float scale = arguments.shape.scale;
#pragma unroll
  for (int i = 0; i < kSumsPerThread; i += 2) {
    const FragmentPlace at = fragment_place(first + i);
    const std::int32_t row = split.tile * kKeyTileRows + consumer * kConsumerKeys + at.row;
    if (row >= arguments.grad_context_key.rows) continue;
    const std::int64_t column = static_cast<std::int64_t>(head) * head_dim + at.column;
    *reinterpret_cast<std::uint32_t*>(arguments.grad_context_key.row(row) + column) =
        pack_bf16(key[i] * scale, key[i + 1] * scale);
    *reinterpret_cast<std::uint32_t*>(arguments.grad_context_value.row(row) + column) =
        pack_bf16(value[i], value[i + 1]);
  }
}

template <int head_dim>
void launch(const AttentionBackward<bf16>& arguments, const AttentionPlan& plan,
            const AttentionGradientScratch& scratch, std::int32_t rounds, cudaStream_t stream) {
  const bool has_blocks = arguments.shape.block_size > 0;
  const KeyGradientMaps maps{
      .query = packed_panel_map(arguments.query, arguments.shape),
      .grad_output = packed_panel_map(arguments.grad_output, arguments.shape),
      .statistics = statistics_map(scratch.statistics),
      .context_key = panel_map(arguments.context_key, kKeyTileRows),
      .context_value = panel_map(arguments.context_value, kKeyTileRows),
      .block_key = panel_map(has_blocks ? arguments.block_key : arguments.context_key, kKeyTileRows),
      .block_value = panel_map(has_blocks ? arguments.block_value : arguments.context_value, kKeyTileRows)};
  const auto kv_heads = static_cast<unsigned>(arguments.shape.kv_heads);
  KeyGradientScratch used{.grad_scores = scratch.grad_scores.data,
                          .partial_sums = scratch.partial_sums.data,
                          .capacity_slices = scratch.grad_scores.size / kGradScoreSlice};
  for (std::int32_t round = 0; round < rounds; ++round) {
    used.round = round;
    hopper_key_gradient_kernel<head_dim>
        <<<static_cast<unsigned>(plan.capacity.key_items) * kv_heads, kThreads,
           KeyGradientLayout<head_dim>::kBytes, stream>>>(maps, arguments, plan, used);
    check_launch("Hopper attention key gradients");
    launch_hopper_query_gradient(arguments, plan, scratch, round, stream);
  }
  add_parts_kernel<head_dim>
      <<<dim3(static_cast<unsigned>(plan.capacity.splits), kv_heads, head_dim / 2 / kSumsPerThread),
         kConsumers * kWarpgroup, 0, stream>>>(arguments, plan, scratch.partial_sums.data);
  check_launch("attention sums of parts");
}

}  // namespace
}  // namespace backward

void launch_hopper_backward(const AttentionBackward<bf16>& arguments, const AttentionPlan& plan,
                            const AttentionGradientScratch& scratch, cudaStream_t stream) {
  // A round takes at least `heads`, whatever the intervals are.
  const std::int64_t most = most_grad_score_slices(plan.budget);
  const std::int64_t capacity = scratch.grad_scores.size / kGradScoreSlice;
  const std::int64_t heads = std::max<std::int64_t>(1, capacity / std::max<std::int64_t>(1, most));
  const auto rounds = static_cast<std::int32_t>(div_ceil(arguments.shape.kv_heads, heads));
  if (arguments.shape.head_dim == 128) {
    backward::launch<128>(arguments, plan, scratch, rounds, stream);
  } else {
    backward::launch<64>(arguments, plan, scratch, rounds, stream);
  }
  if (capacity < most) launch_portable_query_gradient(arguments, plan, scratch, true, stream);
}

void prepare_hopper_backward() {
  allow_shared_memory(backward::hopper_key_gradient_kernel<128>, backward::KeyGradientLayout<128>::kBytes);
  allow_shared_memory(backward::hopper_key_gradient_kernel<64>, backward::KeyGradientLayout<64>::kBytes);
  prepare_hopper_query_gradient();
}

}  // namespace draftsmith::cuda
