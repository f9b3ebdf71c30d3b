#include "kernels/block_loss.h"

#include <gtest/gtest.h>

#include "reference/block_loss.h"
#include "support/budget.h"
#include "support/devices.h"
#include "support/guard.h"
#include "support/run_on.h"

namespace draftsmith::test {
namespace {

struct Slot {
  int block, offset, label, prediction;
  double nll;
};

constexpr std::int64_t kBlockSize = 5;

struct Result {
  std::vector<double> weights, sums;
};

Result run(const LossSettings& settings, const std::vector<Slot>& slots, double already = 0) {
  const auto rows = static_cast<std::int64_t>(slots.size());
  Guarded<std::int32_t> labels(1, rows), blocks(1, rows), offsets(1, rows), predictions(1, rows);
  Guarded<float> nll(1, rows), weights(1, rows);
  Guarded<double> sums(1, LossSums::size(kBlockSize));
  for (std::int64_t row = 0; row < rows; ++row) {
    const Slot& slot = slots[static_cast<std::size_t>(row)];
    blocks.vector()[row] = slot.block;
    offsets.vector()[row] = slot.offset;
    labels.vector()[row] = slot.label;
    predictions.vector()[row] = slot.prediction;
    nll.vector()[row] = static_cast<float>(slot.nll);
  }
  for (double& sum : sums.vector()) sum = already;
  const Device device = test_device();
  run_on<float>(device, BlockLoss<float>{.settings = settings,
                                         .block_size = kBlockSize,
                                         .labels = labels.vector(),
                                         .blocks = blocks.vector(),
                                         .offsets = offsets.vector(),
                                         .nll = nll.vector(),
                                         .predictions = predictions.vector(),
                                         .weights = weights.vector(),
                                         .sums = sums.vector()});
  weights.expect_guards_intact();
  sums.expect_guards_intact();
  return {weights.values(), sums.values()};
}

// A whole block; one with a hole at 2 whose first slots are right; one that starts wrong; unused rows last.
const std::vector<Slot> kSlots{
    {0, 1, 7, 7, 0.5}, {0, 2, 8, 8, 0.25},   {0, 3, 9, 1, 3.0},    {0, 4, 3, 3, 0.125},
    {4, 1, 7, 7, 1.0}, {4, 3, 8, 8, 0.75},   {4, 4, 9, 9, 2.0},    {6, 1, 5, 6, 1.5},
    {6, 2, 5, 5, 0.5}, {-1, 0, -1, -1, 0.0}, {-1, 0, -1, -1, 0.0},
};

const std::vector<LossSettings> kSettings{{.kind = LossKind::dflash, .gamma = 4},
                                          {.kind = LossKind::dflash, .gamma = 0},
                                          {.kind = LossKind::dpace, .alpha = 0.5f},
                                          {.kind = LossKind::dpace, .alpha = 0.25f}};

std::vector<double> expected_weights(const LossSettings& settings) {
  std::vector<double> all;
  for (std::size_t first = 0; first < 9;) {
    std::size_t last = first;
    std::vector<int> offsets;
    std::vector<double> nll;
    for (; last < 9 && kSlots[last].block == kSlots[first].block; ++last) {
      offsets.push_back(kSlots[last].offset);
      nll.push_back(kSlots[last].nll);
    }
    for (const double weight : block_weights_reference(settings, offsets, nll)) all.push_back(weight);
    first = last;
  }
  all.resize(kSlots.size());
  return all;
}

TEST(BlockLossTest, WeightsMatchTheFormulas) {
  for (const LossSettings& settings : kSettings) {
    // Up to block_size confidences are rounded to float before they are summed.
    expect_close(run(settings, kSlots).weights, expected_weights(settings), {.terms = kBlockSize});
  }
}

TEST(BlockLossTest, SumsAreAddedUnscaled) {
  for (const LossSettings& settings : kSettings) {
    const Result result = run(settings, kSlots, 10);
    double numerator = 10, denominator = 10, nll = 10;
    for (std::size_t i = 0; i < kSlots.size(); ++i) {
      numerator += result.weights[i] * kSlots[i].nll;
      denominator += result.weights[i];
      nll += kSlots[i].nll;
    }
    EXPECT_DOUBLE_EQ(result.sums[LossSums::kNumerator], numerator);
    EXPECT_DOUBLE_EQ(result.sums[LossSums::kDenominator], denominator);
    EXPECT_DOUBLE_EQ(result.sums[LossSums::kNll], nll);
  }
}

TEST(BlockLossTest, AHoleOrAMistakeEndsARun) {
  const std::vector<double> sums = run(kSettings[0], kSlots).sums;
  EXPECT_EQ(sums[LossSums::kRuns], 2 + 1 + 0);
  EXPECT_EQ(sums[LossSums::kBlocks], 3);
  const std::vector<double> hits{0, 2, 2, 1, 2}, counts{0, 3, 2, 2, 2};
  for (std::int64_t offset = 0; offset < kBlockSize; ++offset) {
    const auto k = static_cast<std::size_t>(offset);
    EXPECT_EQ(sums[static_cast<std::size_t>(LossSums::hits(offset))], hits[k]) << offset;
    EXPECT_EQ(sums[static_cast<std::size_t>(LossSums::counts(offset, kBlockSize))], counts[k]) << offset;
  }
}

TEST(BlockLossTest, NothingSupervisedAddsNothing) {
  const Result result = run(kSettings[2], {{3, 1, -1, -1, 0.0}, {3, 2, -1, -1, 0.0}});
  for (const double weight : result.weights) EXPECT_EQ(weight, 0.0);
  for (const double sum : result.sums) EXPECT_EQ(sum, 0.0);
}

}  // namespace
}  // namespace draftsmith::test
