// Routing to experts and the sum of their outputs. A row is routed by one warp; then one block an expert
// deals its places: it counts the choices of the experts before it, and of its own those of the rows before.
// Counts are whole numbers, so the places do not depend on timing.
#include "kernels/moe.h"

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/vector.cuh"

namespace draftsmith::cuda {

namespace {

using Choice = std::uint16_t;  // an expert
static_assert(kMostExperts <= 32 * kWarp, "a lane marks its experts in 32 bits");

constexpr int kRouteThreads = 128;
constexpr std::int64_t kMaxDealThreads = 512, kMaxCombineThreads = 256;

struct Candidate {
  float logit = 0;
  int expert = -1;  // none

  // Larger logits first, the lowest expert among equals; anything before none.
  __device__ bool yields_to(const Candidate& other) const {
    if (other.expert < 0 || expert < 0) return other.expert >= 0;
    return other.logit > logit || (other.logit == logit && other.expert < expert);
  }
};

// The best expert that no lane has taken; lane e % 32 keeps the mark of expert e.
__device__ Candidate best_of_warp(const float* logits, int experts, std::uint32_t taken) {
  Candidate best;
  for (int i = 0, expert = static_cast<int>(threadIdx.x) % 32; expert < experts; ++i, expert += 32) {
    const Candidate candidate{logits[expert], expert};
    if ((taken >> i & 1) == 0 && best.yields_to(candidate)) best = candidate;
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    const Candidate other{__shfl_xor_sync(kAllLanes, best.logit, offset),
                          __shfl_xor_sync(kAllLanes, best.expert, offset)};
    if (best.yields_to(other)) best = other;
  }
  // Logits that are not numbers have no order: the first lane's word goes.
  return {__shfl_sync(kAllLanes, best.logit, 0), __shfl_sync(kAllLanes, best.expert, 0)};
}

template <typename T>
__global__ void __launch_bounds__(kRouteThreads) route_rows_kernel(RouteExperts<T> arguments, Choice* choices) {
  const std::int64_t row = (static_cast<std::int64_t>(blockIdx.x) * kRouteThreads + threadIdx.x) / 32;
  if (row >= arguments.logits.rows) return;
  const int lane = static_cast<int>(threadIdx.x) % 32, experts = static_cast<int>(arguments.logits.columns);
  const std::int64_t chosen = arguments.weights.columns;
  const float* logits = arguments.logits.row(row);
  std::uint32_t taken = 0;
  float largest = 0;
  for (std::int64_t i = 0; i < chosen; ++i) {
    const Candidate best = best_of_warp(logits, experts, taken);
    if (i == 0) largest = best.logit;
    if (best.expert % 32 == lane) taken |= 1u << (best.expert / 32);
  }

  float total = 0;
  for (int i = 0, expert = lane; expert < experts; ++i, expert += 32) {
    if (!arguments.normalise || (taken >> i & 1) != 0) total += expf(logits[expert] - largest);
  }
  total = group_sum(total, 32);
  std::int64_t before = 0;  // chosen experts of lower numbers
  for (int first = 0, i = 0; first < experts; first += 32, ++i) {
    const bool is_mine = (taken >> i & 1) != 0;
    const std::uint32_t chosen_here = __ballot_sync(kAllLanes, is_mine);
    if (is_mine) {
      const std::int64_t place = before + __popc(chosen_here & ((1u << lane) - 1));
      arguments.weights(row, place) = to_stored<T>(expf(logits[first + lane] - largest) / total);
      choices[row * chosen + place] = static_cast<Choice>(first + lane);
    }
    before += __popc(chosen_here);
  }
}

struct Deal {
  const Choice* choices;  // [rows, chosen], a row's ascending
  std::int64_t count, chosen;
  Vector<std::int32_t> first, rows;
  Matrix<std::int32_t> places;
};

// Choices by row, in order, each warp a part of them.
__global__ void deal_places_kernel(Deal deal) {
  __shared__ int shared[32], counted[32];
  const int expert = static_cast<int>(blockIdx.x), lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32, warps = static_cast<int>(blockDim.x) / 32;
  const std::int64_t part = (deal.count + warps * 32 - 1) / (warps * 32) * 32;
  const std::int64_t begin = warp * part, end = begin + part < deal.count ? begin + part : deal.count;
  int lower = 0, own = 0;
#pragma unroll 4
  for (std::int64_t at = begin + lane; at < end; at += 32) {
    const int choice = deal.choices[at];
    lower += choice < expert ? 1 : 0;
    own += choice == expert ? 1 : 0;
  }
  own = group_sum(own, 32);
  if (lane == 0) counted[warp] = own;
  const int first = block_sum(lower, shared);
  __syncthreads();
  int place = first;
  for (int other = 0; other < warp; ++other) place += counted[other];
  if (threadIdx.x == 0) {
    deal.first[expert] = first;
    if (blockIdx.x == 0) deal.first[gridDim.x] = static_cast<std::int32_t>(deal.count);
  }
#pragma unroll 4
  for (std::int64_t base = begin; base < end; base += 32) {
    const std::int64_t at = base + lane;
    const bool is_own = at < end && deal.choices[at] == expert;
    const std::uint32_t owned = __ballot_sync(kAllLanes, is_own);
    if (is_own) {
      const int mine = place + __popc(owned & ((1u << lane) - 1));
      const std::int64_t row = at / deal.chosen;
      deal.rows[mine] = static_cast<std::int32_t>(row);
      deal.places(row, at % deal.chosen) = mine;
    }
    place += __popc(owned);
  }
}

// Blocks are counted by row and then by part of the row.
template <typename T, int count>
__global__ void combine_experts_kernel(CombineExperts<T> arguments, int parts) {
  const std::int64_t row = blockIdx.x / parts;
  const std::int64_t column =
      (static_cast<std::int64_t>(blockIdx.x % parts) * blockDim.x + threadIdx.x) * count;
  if (column >= arguments.output.columns) return;
  float sums[count] = {};
#pragma unroll 4
  for (std::int64_t i = 0; i < arguments.places.columns; ++i) {
    const float weight = to_float(arguments.weights(row, i));
    float values[count];
    load(arguments.input.row(arguments.places(row, i)) + column, values);
#pragma unroll
    for (int c = 0; c < count; ++c) sums[c] = fmaf(weight, values[c], sums[c]);
  }
  store(arguments.output.row(row) + column, sums);
}

}  // namespace

template <typename T>
std::int64_t route_experts_scratch(const Device&, const RouteExperts<T>& arguments) {
  return arguments.rows.size * static_cast<std::int64_t>(sizeof(Choice));
}

template <typename T>
void route_experts(const Stream& stream, const RouteExperts<T>& arguments) {
  const std::int64_t rows = arguments.logits.rows, experts = arguments.logits.columns;
  const std::int64_t chosen = arguments.weights.columns, count = rows * chosen;
  DRAFTSMITH_CHECK(experts <= kMostExperts && chosen >= 1 && chosen <= experts,
                   "one to all of the experts are chosen");
  DRAFTSMITH_CHECK(arguments.places.rows == rows && arguments.places.columns == chosen &&
                       arguments.weights.rows == rows && arguments.rows.size == count &&
                       arguments.first.size == experts + 1,
                   "a place for every row and choice");
  DRAFTSMITH_CHECK(rows > 0 && count <= 0x7fffffff, "places are counted in 32 bits");
  Choice* choices = scratch_array<Choice>(stream, count);
  route_rows_kernel<<<grid_of(div_ceil(rows * kWarp, kRouteThreads)), kRouteThreads, 0, native(stream)>>>(
      arguments, choices);
  check_launch("routing to experts");
  const std::int64_t threads = std::min(kMaxDealThreads, round_up(count, kWarp));
  const Deal deal{.choices = choices,
                  .count = count,
                  .chosen = chosen,
                  .first = arguments.first,
                  .rows = arguments.rows,
                  .places = arguments.places};
  deal_places_kernel<<<grid_of(experts), static_cast<unsigned>(threads), 0, native(stream)>>>(deal);
  check_launch("dealing places to experts");
}

template <typename T>
void combine_experts(const Stream& stream, const CombineExperts<T>& arguments) {
  const auto& [input, places, weights, output] = arguments;
  const std::int64_t rows = output.rows, width = output.columns, chosen = places.columns;
  DRAFTSMITH_CHECK(places.rows == rows && weights.rows == rows && weights.columns == chosen &&
                       input.rows == rows * chosen && input.columns == width,
                   "a weight for every place of every row");
  const auto launch = [&]<int count>() {
    const std::int64_t columns = div_ceil(width, count);
    const std::int64_t threads = std::min(kMaxCombineThreads, round_up(columns, kWarp));
    const std::int64_t parts = div_ceil(columns, threads);
    combine_experts_kernel<T, count>
        <<<grid_of(rows * parts), static_cast<unsigned>(threads), 0, native(stream)>>>(
            arguments, static_cast<int>(parts));
  };
  is_wide(input) && is_wide(output) ? launch.template operator()<kWide<T>>()
                                    : launch.template operator()<1>();
  check_launch("adding up experts");
}

template std::int64_t route_experts_scratch(const Device&, const RouteExperts<float>&);
template std::int64_t route_experts_scratch(const Device&, const RouteExperts<bf16>&);
template void route_experts(const Stream&, const RouteExperts<float>&);
template void route_experts(const Stream&, const RouteExperts<bf16>&);
template void combine_experts(const Stream&, const CombineExperts<float>&);
template void combine_experts(const Stream&, const CombineExperts<bf16>&);

}  // namespace draftsmith::cuda
