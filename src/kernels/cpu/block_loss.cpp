// A few thousand rows at most: one thread, in double, block by block.
#include "kernels/block_loss.h"

#include <cmath>

#include "kernels/cpu/operations.h"

namespace draftsmith::cpu {

namespace {

// Weights of the rows [begin, end) of one block.
template <typename T>
void weigh_block(const BlockLoss<T>& arguments, std::int64_t begin, std::int64_t end) {
  const Vector<const std::int32_t> labels = arguments.labels;
  const Vector<float> weights = arguments.weights;
  const LossSettings settings = arguments.settings;
  if (settings.kind == LossKind::dflash) {
    for (std::int64_t row = begin; row < end; ++row) {
      const double distance = arguments.offsets[row] - 1;
      const double weight = settings.gamma == 0 ? 1.0 : std::exp(-distance / settings.gamma);
      weights[row] = labels[row] < 0 ? 0.0f : static_cast<float>(weight);
    }
    return;
  }
  const double alpha = settings.alpha;
  double confidence = 1;
  for (std::int64_t row = begin; row < end; ++row) {
    if (labels[row] >= 0) {
      confidence *= (1 - alpha) * std::exp(-static_cast<double>(arguments.nll[row])) + alpha;
    }
    weights[row] = labels[row] < 0 ? 0.0f : static_cast<float>(confidence);
  }
  double weight = 0;
  for (std::int64_t row = end - 1; row >= begin; --row) {
    weight += weights[row];
    if (labels[row] >= 0) weights[row] = static_cast<float>(weight);
  }
}

template <typename T>
double loss_of(const BlockLoss<T>& arguments, std::int64_t row) {
  const LossSettings& settings = arguments.settings;
  const double nll = arguments.nll[row];
  if (!settings.distilled()) return nll;
  const double share = settings.distill_share, temperature = settings.distill_temperature;
  return (1 - share) * nll + share * temperature * temperature * arguments.divergence[row];
}

template <typename T>
void add_block(const BlockLoss<T>& arguments, std::int64_t begin, std::int64_t end) {
  const Vector<double> sums = arguments.sums;
  std::int64_t run = 0;
  bool any = false;
  for (std::int64_t row = begin; row < end; ++row) {
    if (arguments.labels[row] < 0) continue;
    any = true;
    const std::int64_t offset = arguments.offsets[row];
    DRAFTSMITH_CHECK(offset >= 1 && offset < arguments.block_size, "a supervised slot lies in its block");
    const double weight = arguments.weights[row], nll = arguments.nll[row];
    const bool hit = arguments.predictions[row] == arguments.labels[row];
    sums[LossSums::kNumerator] += weight * loss_of(arguments, row);
    sums[LossSums::kDenominator] += weight;
    sums[LossSums::kNll] += nll;
    sums[LossSums::counts(offset, arguments.block_size)] += 1;
    sums[LossSums::hits(offset)] += hit;
    if (hit && run == offset - 1) ++run;
  }
  sums[LossSums::kRuns] += static_cast<double>(run);
  sums[LossSums::kBlocks] += any;
}

}  // namespace

template <typename T>
void block_loss(const Stream&, const BlockLoss<T>& arguments) {
  const std::int64_t rows = arguments.labels.size;
  DRAFTSMITH_CHECK(arguments.blocks.size == rows && arguments.offsets.size == rows &&
                       arguments.nll.size == rows && arguments.predictions.size == rows &&
                       arguments.weights.size == rows,
                   "one of each for every row");
  DRAFTSMITH_CHECK(!arguments.settings.distilled() || arguments.divergence.size == rows,
                   "a divergence for every row when distilled");
  DRAFTSMITH_CHECK(arguments.sums.size == LossSums::size(arguments.block_size), "a place for every sum");
  for (std::int64_t begin = 0; begin < rows;) {
    std::int64_t end = begin + 1;
    while (end < rows && arguments.blocks[end] == arguments.blocks[begin]) ++end;
    weigh_block(arguments, begin, end);
    add_block(arguments, begin, end);
    begin = end;
  }
}

template void block_loss(const Stream&, const BlockLoss<float>&);
template void block_loss(const Stream&, const BlockLoss<bf16>&);

}  // namespace draftsmith::cpu
