// One block of threads for a whole chunk: a thread weighs and counts draft block after draft block, in
// double; the threads' sums are added in one order. Counts are whole numbers, so their order is free.
#include "kernels/block_loss.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/reduce.cuh"

namespace draftsmith::cuda {

namespace {

constexpr int kThreads = 1024;
constexpr int kMaxBlockSize = 1024;  // what the shared counters hold

// Weights of the rows [begin, end) of one draft block.
template <typename T>
__device__ void weigh_block(const BlockLoss<T>& arguments, std::int64_t begin, std::int64_t end) {
  const std::int32_t* labels = arguments.labels.data;
  float* weights = arguments.weights.data;
  const LossSettings& settings = arguments.settings;
  if (settings.kind == LossKind::dflash) {
    for (std::int64_t row = begin; row < end; ++row) {
      const double distance = arguments.offsets.data[row] - 1;
      const double weight = settings.gamma == 0 ? 1.0 : exp(-distance / settings.gamma);
      weights[row] = labels[row] < 0 ? 0.0f : static_cast<float>(weight);
    }
    return;
  }
  const double alpha = settings.alpha;
  double confidence = 1;
  for (std::int64_t row = begin; row < end; ++row) {
    if (labels[row] >= 0) {
      confidence *= (1 - alpha) * exp(-static_cast<double>(arguments.nll.data[row])) + alpha;
    }
    weights[row] = labels[row] < 0 ? 0.0f : static_cast<float>(confidence);
  }
  double weight = 0;
  for (std::int64_t row = end - 1; row >= begin; --row) {
    weight += weights[row];
    if (labels[row] >= 0) weights[row] = static_cast<float>(weight);
  }
}

// What a row adds to the numerator, before its weight.
template <typename T>
__device__ double loss_of(const BlockLoss<T>& arguments, std::int64_t row) {
  const LossSettings& settings = arguments.settings;
  const double nll = arguments.nll.data[row];
  if (settings.distill_share <= 0) return nll;
  const double share = settings.distill_share, temperature = settings.distill_temperature;
  return (1 - share) * nll + share * temperature * temperature * arguments.divergence.data[row];
}

struct ThreadSums {
  double numerator = 0, denominator = 0, nll = 0, runs = 0, blocks = 0;
};

template <typename T>
__device__ void add_block(const BlockLoss<T>& arguments, std::int64_t begin, std::int64_t end,
                          ThreadSums& sums, std::int32_t* hits, std::int32_t* counts) {
  std::int64_t run = 0;
  bool any = false;
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int32_t label = arguments.labels.data[row];
    if (label < 0) continue;
    any = true;
    const std::int32_t offset = arguments.offsets.data[row];
    if (offset < 1 || offset >= arguments.block_size) __trap();  // a supervised slot lies in its block
    const double weight = arguments.weights.data[row], nll = arguments.nll.data[row];
    const bool hit = arguments.predictions.data[row] == label;
    sums.numerator += weight * loss_of(arguments, row);
    sums.denominator += weight;
    sums.nll += nll;
    atomicAdd(&counts[offset], 1);
    if (hit) atomicAdd(&hits[offset], 1);
    if (hit && run == offset - 1) ++run;
  }
  sums.runs += static_cast<double>(run);
  sums.blocks += any ? 1 : 0;
}

template <typename T>
__global__ void __launch_bounds__(kThreads) block_loss_kernel(BlockLoss<T> arguments) {
  __shared__ std::int32_t hits[kMaxBlockSize], counts[kMaxBlockSize];
  __shared__ double shared[32];
  for (int offset = static_cast<int>(threadIdx.x); offset < kMaxBlockSize; offset += kThreads) {
    hits[offset] = 0;
    counts[offset] = 0;
  }
  __syncthreads();
  const std::int64_t rows = arguments.labels.size;
  const std::int32_t* blocks = arguments.blocks.data;
  ThreadSums sums;
  for (std::int64_t row = threadIdx.x; row < rows; row += kThreads) {
    if (row > 0 && blocks[row] == blocks[row - 1]) continue;  // only a block's first row starts it
    std::int64_t end = row + 1;
    while (end < rows && blocks[end] == blocks[row]) ++end;
    weigh_block(arguments, row, end);
    add_block(arguments, row, end, sums, hits, counts);
  }
  const double numerator = block_sum(sums.numerator, shared);
  const double denominator = block_sum(sums.denominator, shared);
  const double nll = block_sum(sums.nll, shared);
  const double runs = block_sum(sums.runs, shared);
  const double with_slots = block_sum(sums.blocks, shared);
  double* output = arguments.sums.data;
  if (threadIdx.x == 0) {
    output[LossSums::kNumerator] += numerator;
    output[LossSums::kDenominator] += denominator;
    output[LossSums::kNll] += nll;
    output[LossSums::kRuns] += runs;
    output[LossSums::kBlocks] += with_slots;
  }
  for (std::int64_t offset = threadIdx.x; offset < arguments.block_size; offset += kThreads) {
    output[LossSums::hits(offset)] += hits[offset];
    output[LossSums::counts(offset, arguments.block_size)] += counts[offset];
  }
}

}  // namespace

template <typename T>
void block_loss(const Stream& stream, const BlockLoss<T>& arguments) {
  const std::int64_t rows = arguments.labels.size;
  DRAFTSMITH_CHECK(arguments.blocks.size == rows && arguments.offsets.size == rows &&
                       arguments.nll.size == rows && arguments.predictions.size == rows &&
                       arguments.weights.size == rows,
                   "one of each for every row");
  DRAFTSMITH_CHECK(!arguments.settings.distilled() || arguments.divergence.size == rows,
                   "a divergence for every row when distilled");
  DRAFTSMITH_CHECK(arguments.sums.size == LossSums::size(arguments.block_size), "a place for every sum");
  DRAFTSMITH_CHECK(arguments.block_size <= kMaxBlockSize, "a draft block fits the counters");
  block_loss_kernel<<<1, kThreads, 0, native(stream)>>>(arguments);
  check_launch("the loss of draft blocks");
}

template void block_loss(const Stream&, const BlockLoss<float>&);
template void block_loss(const Stream&, const BlockLoss<bf16>&);

}  // namespace draftsmith::cuda
