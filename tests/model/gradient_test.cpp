// The whole drafter's gradient against the derivative of an independent formula, by complex step: for
// analytic L, dL/de (w + e d) at 0 is Im L(w + i h d) / h, exact to rounding for tiny h (Squire and Trapp,
// SIAM Review 1998).
#include <gtest/gtest.h>

#include "base/random.h"
#include "model/drafter_fixture.h"
#include "reference/drafter.h"

namespace draftsmith {
namespace {

using Complex = std::complex<double>;

struct Problem {
  DrafterShape shape{.layers = 3,
                     .width = 24,
                     .intermediate = 20,
                     .query_heads = 6,
                     .kv_heads = 2,
                     .head_dim = 6,
                     .vocabulary = 31,
                     .max_positions = 40,
                     .target_layers = 9,
                     .block_size = 5,
                     .taps = {0, 3, 4, 7},
                     .mask_token_id = 30,
                     .epsilon = 1e-5f,
                     .rope = {.theta = 500.0},
                     .attention_bias = true,
                     .layer_kinds = {LayerKind::sliding, LayerKind::full, LayerKind::sliding},
                     .sliding_window = 6};
  BatchBudget budget{.context_tokens = 37, .blocks = 9, .block_size = 5, .loss_chunk_rows = 7};

  void set_block_size(std::int64_t size) {
    shape.block_size = budget.block_size = size;
    budget.loss_chunk_rows = size + 2;
  }
  std::vector<reference::Document> documents;
  std::vector<float> masters;
  reference::Rows<double> embedding, head;
};

float draw(const Random& random, std::uint64_t index, double deviation) {
  return static_cast<float>(deviation * random.normal(index));
}

Problem make_problem(std::uint64_t seed) {
  Problem problem;
  const Random random(seed, RandomStream::noise);
  std::uint64_t at = 0;
  const auto rows = [&](std::int64_t count, std::int64_t width, double deviation) {
    reference::Rows<double> values(count, std::vector<double>(width));
    for (auto& row : values) {
      for (double& value : row) value = draw(random, at++, deviation);
    }
    return values;
  };
  const WeightTable table = drafter_weight_table(problem.shape);
  problem.masters.resize(table.size);
  for (const WeightEntry& entry : table.entries) {
    for (std::int64_t i = 0; i < entry.size(); ++i) {
      const double center = entry.initial == InitialValue::ones ? 1.0 : 0.0;
      problem.masters[entry.offset + i] = static_cast<float>(center + draw(random, at++, 0.2));
    }
  }
  problem.embedding = rows(problem.shape.vocabulary, problem.shape.width, 0.7);
  problem.head = rows(problem.shape.vocabulary, problem.shape.width, 0.3);
  // A document with an anchor at 0, one cut short by its end, one of a single token without blocks.
  const std::vector<std::pair<std::int64_t, std::vector<std::int32_t>>> sizes{
      {14, {0, 3, 9}}, {1, {}}, {11, {4, 8, 9}}};
  for (const auto& [length, anchors] : sizes) {
    reference::Document document{.anchors = anchors,
                                 .features = rows(length, problem.shape.feature_width(), 1.0)};
    for (std::int64_t i = 0; i < length; ++i) {
      document.tokens.push_back(static_cast<std::int32_t>(random.below(at++, 30)));
      document.loss_mask.push_back(i % 6 != 5);  // holes
    }
    problem.documents.push_back(document);
  }
  return problem;
}

BatchCounts load(const Problem& problem, DrafterFixture<float>& fixture) {
  fixture.set_weights({problem.masters.data(), static_cast<std::int64_t>(problem.masters.size())});
  MicroBatchBuilder builder(fixture.budget, fixture.shape);
  builder.begin(fixture.batch);
  std::int64_t row = 0;
  for (std::int64_t r = 0; r < fixture.features.rows; ++r)
    std::fill_n(fixture.features.row(r), fixture.features.columns, 0.5f);
  for (const auto& document : problem.documents) {
    builder.add_document(document.tokens, document.loss_mask, document.anchors);
    for (const auto& values : document.features)
      std::copy(values.begin(), values.end(), fixture.features.row(row++));
  }
  for (std::int64_t r = 0; r < fixture.shape.vocabulary; ++r) {
    std::copy(problem.embedding[r].begin(), problem.embedding[r].end(), fixture.embedding.row(r));
    std::copy(problem.head[r].begin(), problem.head[r].end(), fixture.head.row(r));
  }
  return builder.finish();
}

// The loss numerator with `step` times i times `direction` added to one weight tensor.
Complex reference_loss(const Problem& problem, const LossSettings& loss, const std::string& name,
                       const std::vector<double>& direction, double step) {
  const WeightTable table = drafter_weight_table(problem.shape);
  reference::NamedWeights<Complex> weights;
  for (const WeightEntry& entry : table.entries) {
    const float* values = problem.masters.data() + entry.offset;
    weights[entry.name].assign(values, values + entry.size());
  }
  for (std::size_t i = 0; i < direction.size(); ++i) weights[name][i] += Complex(0, step * direction[i]);
  std::vector<Complex> head;
  for (const auto& row : problem.head) head.insert(head.end(), row.begin(), row.end());
  const reference::Model<Complex> model{problem.shape, weights, problem.embedding, head};
  Complex total = 0;
  for (const auto& document : problem.documents) total += reference::loss_numerator(model, loss, document);
  return total;
}

class WholeGradient : public testing::TestWithParam<std::tuple<LossKind, bool, std::int64_t>> {};

TEST_P(WholeGradient, IsTheDerivativeOfTheLoss) {
  Problem problem = make_problem(11);
  const auto [kind, causal, block_size] = GetParam();
  problem.set_block_size(block_size);
  problem.shape.causal_in_sliding_layers = causal;
  const LossSettings loss{.kind = kind, .gamma = 4, .alpha = 0.5f};
  DrafterFixture<float> fixture(problem.shape, problem.budget, {.loss = loss});
  fixture.run(load(problem, fixture));

  const double value = reference_loss(problem, loss, "fc.weight", {}, 0).real();
  EXPECT_NEAR(fixture.loss.sums[LossSums::kNumerator], value, 1e-5 * std::abs(value));

  const double step = 1e-30;
  std::uint64_t at = 0;
  for (const WeightEntry& entry : fixture.table.entries) {
    std::vector<double> direction(entry.size());
    const Random random(3, RandomStream::noise, 1);
    for (double& d : direction) d = random.normal(at++);
    const double expected = reference_loss(problem, loss, entry.name, direction, step).imag() / step;
    double found = 0, size = 0;
    for (std::int64_t i = 0; i < entry.size(); ++i) {
      const double gradient = fixture.weight_gradients[entry.offset + i];
      found += gradient * direction[i];
      size += gradient * gradient;
    }
    // Each gradient entry carries a relative error of about the depth of the network (some tens of roundings)
    // times 2^-24, in the 2-norm of the tensor; a random direction of unit deviation projects it by no more
    // than 4 deviations.
    EXPECT_NEAR(found, expected, 4 * 100 * kUnitRoundoff<float> * std::sqrt(size)) << entry.name;
    EXPECT_GT(std::abs(expected), 0) << entry.name << " takes part in the loss";
  }
}

INSTANTIATE_TEST_SUITE_P(Losses, WholeGradient,
                         testing::Combine(testing::Values(LossKind::dflash, LossKind::dpace), testing::Bool(),
                                          testing::Values(2, 5, 16)));

}  // namespace
}  // namespace draftsmith
