// Attention forward on Hopper. One block of threads per processor takes items (packed rows of one kv head)
// from a list, longest first, by a ticket; only the order of items depends on timing, never the order of a
// sum. A producer warp brings queries, keys and values by TMA; each consumer warpgroup owns 64 packed rows:
//   own rows of the block first, 64 keys at a time, then context tiles of 128 keys from the last to the
//   first, masked where not every row sees the whole tile.
// Three consumers at 160 registers hide one another's softmax. Two of them at 232, with the scores of a step
// in flight beside the outputs of the step before, measured 7 % slower at 3072 context rows and 2 % at 16384.
#include "kernels/cuda/attention_forward_producer.cuh"

namespace draftsmith::cuda {

namespace forward {
namespace {

// The columns of a step's scores that each of a thread's two rows sees.
struct StepMask {
  std::int32_t low[2], high[2];
};

template <int head_dim>
struct ForwardConsumer {
  using Layout = ForwardLayout<head_dim>;
  static constexpr int kOutputs = head_dim / 2;

  const Layout& layout;
  float log2_scale;
  std::uint32_t query;
  RingPlace<kStages> keys, values;
  float maximum[2], sum[2];
  float output[kOutputs];

  __device__ void release(const Mbarrier& free) const {
    if (threadIdx.x % 32 == 0) free.arrive();
  }

  // scores [64, keys] = queries times keys of the slot, in flight.
  template <int key_count>
  __device__ void issue_scores(float (&scores)[key_count / 2]) {
    layout.key_full(keys.slot).wait(keys.parity);
    wgmma_fence();
    const std::uint64_t left = describe(query, 16), right = describe(layout.key(keys.slot), 16);
#pragma unroll
    for (int depth = 0; depth < head_dim / 16; ++depth) {
      const int panel = depth / 4, inside = depth % 4 * 32;
      multiply<Lies::by_rows, Lies::by_rows>(scores, left + further(panel * kQueryTileRows * 128 + inside),
                                             right + further(panel * key_count * 128 + inside), depth > 0);
    }
    wgmma_commit();
  }

  // output += probabilities times values of the slot, in flight.
  template <int key_count>
  __device__ void issue_output(const std::uint32_t (&probabilities)[key_count / 16][4]) {
    layout.value_full(values.slot).wait(values.parity);
    wgmma_fence();
    const std::uint64_t right = describe(layout.value(values.slot), key_count * 128);
#pragma unroll
    for (int depth = 0; depth < key_count / 16; ++depth) {
      multiply<Lies::by_columns>(output, probabilities[depth], right + further(depth * 2048));
    }
    wgmma_commit();
  }

  // From the rows' intervals, for keys from `first_key` on.
  __device__ static StepMask mask_from(const RowInterval (&rows)[2], std::int32_t first_key) {
    const auto base = static_cast<std::int32_t>(first_key + threadIdx.x % 4 * 2);
    return {{rows[0].begin - base, rows[1].begin - base}, {rows[0].end - base, rows[1].end - base}};
  }
  template <int count>
  __device__ static void apply(const StepMask& mask, float (&scores)[count]) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const int column = i / 4 * 8 + i % 2, half = i / 2 % 2;
      if (column < mask.low[half] || column >= mask.high[half]) scores[i] = -INFINITY;
    }
  }

  // Scores become exponentials below the new maxima; `factor` scales what was summed before down to them.
  template <int count>
  __device__ void soften(float (&scores)[count], float (&factor)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = maximum[half];
#pragma unroll
      for (int i = 2 * half; i < count; i += 4) most = fmaxf(most, fmaxf(scores[i], scores[i + 1]));
      most = quad_max(most);
      const float offset = most == -INFINITY ? 0.0f : most * log2_scale;
      // Not contracted: exactly 1 when the maximum stays, so that tiles a row does not see change no bit of
      // it.
      factor[half] = exp2_fast(__fmul_rn(maximum[half], log2_scale) - offset);
      maximum[half] = most;
      float total = 0;
#pragma unroll
      for (int i = 2 * half; i < count; i += 4) {
        scores[i] = exp2_fast(fmaf(scores[i], log2_scale, -offset));
        scores[i + 1] = exp2_fast(fmaf(scores[i + 1], log2_scale, -offset));
        total += scores[i] + scores[i + 1];
      }
      sum[half] = fmaf(sum[half], factor[half], total);
    }
  }
  __device__ void rescale(const float (&factor)[2]) {
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) output[i] *= factor[i / 2 % 2];
  }
  template <int count>
  __device__ static void pack(const float (&scores)[count], std::uint32_t (&packed)[count / 8][4]) {
#pragma unroll
    for (int i = 0; i < count / 2; ++i) packed[i / 4][i % 4] = pack_bf16(scores[2 * i], scores[2 * i + 1]);
  }

  // One tile of keys and values, masked where `mask` is given.
  template <int key_count>
  __device__ void step(bool masked, const StepMask& mask) {
    float scores[key_count / 2], factor[2];
    std::uint32_t probabilities[key_count / 16][4];
    issue_scores<key_count>(scores);
    wgmma_wait<0>();
    hold(scores);
    release(layout.key_free(keys.slot));
    keys.advance();
    if (masked) apply(mask, scores);
    soften(scores, factor);
    rescale(factor);
    pack(scores, probabilities);
    issue_output<key_count>(probabilities);
    wgmma_wait<0>();
    hold(output);
    release(layout.value_free(values.slot));
    values.advance();
  }

  __device__ void reset() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      maximum[half] = -INFINITY;
      sum[half] = 0;
    }
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) output[i] = 0;
  }

  // Divides the outputs by their sums and stores log_sum_exp. Rows that see nothing become 0 whatever sign
  // their sums have: a row of an invalid block is computed as if it saw the tiles that all others see.
  __device__ void finish(const AttentionForward<bf16>& arguments, const PackedRows& packed,
                         std::int32_t first_row, const RowInterval (&context)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int32_t row = first_row + 8 * half;
      const float total = quad_sum(sum[half]);
      const bool seen = context[half].end >= 0 && !(total == 0);  // a NaN is passed on
      const float factor = 1.0f / total;
#pragma unroll
      for (int i = 2 * half; i < kOutputs; i += 4) {
        output[i] = seen ? output[i] * factor : 0.0f;
        output[i + 1] = seen ? output[i + 1] * factor : 0.0f;
      }
      if (threadIdx.x % 4 == 0 && arguments.log_sum_exp.data != nullptr && packed.inside(row)) {
        arguments.log_sum_exp(packed.token(row), packed.head(row)) =
            seen ? fmaf(maximum[half], arguments.shape.scale, logf(total)) : -INFINITY;
      }
    }
  }
};

// Writes 64 rows of outputs through the consumer's slab, whose queries nobody needs any more.
template <int head_dim>
__device__ void store_output(const float (&output)[head_dim / 2], std::uint32_t slab,
                             const AttentionForward<bf16>& arguments, const PackedRows& packed,
                             std::int32_t first_row) {
  const int lane = threadIdx.x % 32, warp_row = threadIdx.x % kWarpgroup / 32 * 16;
  const int row = warp_row + lane % 16;
#pragma unroll
  for (int block = 0; block < head_dim / 16; ++block) {
    std::uint32_t values[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      values[i] = pack_bf16(output[block * 8 + 2 * i], output[block * 8 + 2 * i + 1]);
    }
    const int chunk = block % 4 * 2 + lane / 16;
    const std::uint32_t address =
        slab + block / 4 * kQueryTileRows * 128 + row * 128 + ((chunk ^ row % 8) << 4);
    store_matrices(address, values);
  }
  __syncwarp();
  constexpr int kChunks = head_dim / 8;
#pragma unroll
  for (int i = lane; i < 16 * kChunks; i += 32) {
    const int from_row = warp_row + i / kChunks, chunk = i % kChunks;
    const std::uint32_t address =
        slab + chunk / 8 * kQueryTileRows * 128 + from_row * 128 + ((chunk % 8 ^ from_row % 8) << 4);
    uint4 value;
    asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "r"(address)
                 : "memory");
    const std::int32_t place = first_row + from_row;
    if (!packed.inside(place)) continue;
    bf16* to =
        arguments.output.row(packed.token(place)) + static_cast<std::int64_t>(packed.head(place)) * head_dim;
    reinterpret_cast<uint4*>(to)[chunk] = value;
  }
}

// Intervals of the thread's two rows, from packed row `row` on.
struct ThreadRows {
  RowInterval context[2], own[2];

  __device__ ThreadRows(const AttentionShape& shape, const ContextIntervals& intervals,
                        const PackedRows& packed, std::int32_t row) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const bool inside = packed.inside(row + 8 * half);
      const std::int32_t token = inside ? packed.token(row + 8 * half) : 0;
      const std::int32_t end = inside ? intervals.end.data[token] : -1;
      context[half] = {intervals.begin.data[token], end};
      own[half] =
          own_interval(token, end, static_cast<std::int32_t>(shape.block_size), shape.causal_in_block);
    }
  }
};

template <int head_dim>
__device__ void consume(const ForwardLayout<head_dim>& layout, const AttentionForward<bf16>& arguments) {
  const AttentionShape& shape = arguments.shape;
  const int consumer = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / kWarpgroup, 0) - 1;
  const int my_row = fragment_place(0).row;
  ForwardConsumer<head_dim> state{layout, shape.scale * kLog2E};
  const auto heads = static_cast<std::int32_t>(shape.query_heads / shape.kv_heads);
  for (RingPlace<kQuerySlots> place;; place.advance()) {
    layout.query_full(place.slot).wait(place.parity);
    const ForwardItem item = layout.item(place.slot);
    if (item.first_row < 0) break;
    state.query = layout.slab(place.slot, consumer);
    const PackedRows packed{heads, static_cast<std::int32_t>(arguments.query.rows), item.kv_head};
    const std::int32_t first_row = item.first_row + consumer * kQueryTileRows;
    const ThreadRows rows(shape, arguments.intervals, packed, first_row + my_row);
    state.reset();
    for (std::int32_t step = 0; step < item.own_steps; ++step) {
      state.template step<kOwnKeys>(true, state.mask_from(rows.own, item.own_first + step * kOwnKeys));
    }
    for (std::int32_t tile = item.last_tile - 1; tile >= item.first_tile; --tile) {
      const bool masked = tile < item.first_core || tile >= item.last_core;
      state.template step<kKeyTileRows>(masked, state.mask_from(rows.context, tile * kKeyTileRows));
    }
    state.finish(arguments, packed, first_row + my_row, rows.context);
    named_barrier(1 + consumer, kWarpgroup);  // every warp's products have read the queries
    store_output<head_dim>(state.output, state.query, arguments, packed, first_row);
    fence_async_proxy();
    layout.query_free(place.slot).arrive();
  }
}

template <int head_dim>
__device__ __forceinline__ void forward_block(const ForwardMaps& maps,
                                              const AttentionForward<bf16>& arguments,
                                              const AttentionPlan& plan) {
  extern __shared__ unsigned char shared[];
  const std::uint32_t start = shared_address(shared), base = (start + 1023) & ~1023u;
  const ForwardLayout<head_dim> layout{base, shared + (base - start)};
  if (threadIdx.x == 0) {
    for (int slot = 0; slot < kQuerySlots; ++slot) {
      layout.query_full(slot).init(1);
      layout.query_free(slot).init(kConsumers * kWarpgroup);
    }
    for (int slot = 0; slot < kStages; ++slot) {
      layout.key_full(slot).init(1);
      layout.value_full(slot).init(1);
      layout.key_free(slot).init(kConsumerWarps);
      layout.value_free(slot).init(kConsumerWarps);
    }
    fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x < kWarpgroup) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kProducerRegisters));
    if (threadIdx.x == 0) ForwardProducer<head_dim>{layout, maps}.run(plan);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kConsumerRegisters));
    consume(layout, arguments);
  }
}

template <int head_dim>
__global__ void __launch_bounds__(kThreads, 1)
    hopper_forward_kernel(const __grid_constant__ ForwardMaps maps,
                          const __grid_constant__ AttentionForward<bf16> arguments,
                          const __grid_constant__ AttentionPlan plan) {
  if constexpr (kHopperTarget) forward_block<head_dim>(maps, arguments, plan);
}

template <int head_dim>
void launch(const AttentionForward<bf16>& arguments, const AttentionPlan& plan, cudaStream_t stream) {
  const bool has_blocks = arguments.shape.block_size > 0;
  const ForwardMaps maps{
      .query = packed_panel_map(arguments.query, arguments.shape),
      .context_key = panel_map(arguments.context_key, kKeyTileRows),
      .context_value = panel_map(arguments.context_value, kKeyTileRows),
      .block_key = panel_map(has_blocks ? arguments.block_key : arguments.context_key, kOwnKeys),
      .block_value = panel_map(has_blocks ? arguments.block_value : arguments.context_value, kOwnKeys)};
  const std::int64_t items = plan.capacity.forward_tiles * arguments.shape.kv_heads;
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(plan.forward_blocks, items));
  hopper_forward_kernel<head_dim>
      <<<blocks, kThreads, ForwardLayout<head_dim>::kBytes, stream>>>(maps, arguments, plan);
}

}  // namespace
}  // namespace forward

std::int32_t forward_tile_rows(AttentionPath path) {
  return path == AttentionPath::hopper ? forward::kConsumers * kQueryTileRows : kQueryTileRows;
}

void launch_hopper_forward(const AttentionForward<bf16>& arguments, const AttentionPlan& plan,
                           cudaStream_t stream) {
  if (arguments.shape.head_dim == 128) {
    forward::launch<128>(arguments, plan, stream);
  } else {
    forward::launch<64>(arguments, plan, stream);
  }
  check_launch("Hopper attention forward");
}

void prepare_hopper_forward() {
  allow_shared_memory(forward::hopper_forward_kernel<128>, forward::ForwardLayout<128>::kBytes);
  allow_shared_memory(forward::hopper_forward_kernel<64>, forward::ForwardLayout<64>::kBytes);
}

}  // namespace draftsmith::cuda
