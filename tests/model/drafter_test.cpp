// What must hold for any drafter: who sees what, and that neither packing nor chunking changes a result.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "base/random.h"
#include "model/drafter_fixture.h"

namespace draftsmith {
namespace {

constexpr std::int64_t kLength = 21;

DrafterShape drafter_shape(LayerKind first, bool causal) {
  return {.layers = 2,
          .width = 32,
          .intermediate = 40,
          .query_heads = 4,
          .kv_heads = 2,
          .head_dim = 8,
          .vocabulary = 53,
          .max_positions = 64,
          .target_layers = 6,
          .block_size = 4,
          .taps = {1, 3},
          .mask_token_id = 52,
          .layer_kinds = {first, LayerKind::full},
          .sliding_window = 7,
          .causal_in_sliding_layers = causal};
}

template <typename T>
void fill_random(Matrix<T> matrix, std::uint32_t stream) {
  const Random random(5, RandomStream::noise, stream);
  for (std::int64_t r = 0; r < matrix.rows; ++r) {
    for (std::int64_t c = 0; c < matrix.columns; ++c) {
      matrix(r, c) = T(static_cast<float>(random.normal(r * matrix.columns + c)));
    }
  }
}

struct Document {
  std::vector<std::int32_t> tokens, anchors;
  std::vector<std::uint8_t> mask;
};

Document document(std::uint32_t number, std::vector<std::int32_t> anchors) {
  Document made{.tokens = {}, .anchors = std::move(anchors), .mask = std::vector<std::uint8_t>(kLength, 1)};
  const Random random(6, RandomStream::noise, number);
  for (std::int64_t i = 0; i < kLength; ++i)
    made.tokens.push_back(static_cast<std::int32_t>(random.below(i, 52)));
  return made;
}

template <typename T>
struct Packed {
  Packed(const DrafterShape& shape, std::int64_t documents, std::int64_t blocks, std::int64_t chunk_rows = 6,
         typename DrafterFixture<T>::Options options = {})
      : fixture(shape,
                {.context_tokens = documents * kLength,
                 .blocks = blocks,
                 .block_size = shape.block_size,
                 .loss_chunk_rows = chunk_rows},
                with_loss(options)),
        builder(fixture.budget, shape) {
    std::vector<float> masters(fixture.table.size);
    initialise_weights(fixture.table, 4, {masters.data(), fixture.table.size});
    for (float& value : masters) value = value == 1.0f ? 1.0f : 8 * value;  // deviations that matter
    fixture.set_weights({masters.data(), fixture.table.size});
    fill_random(fixture.embedding, 1);
    fill_random(fixture.head, 2);
    fill_random(fixture.features, 3);
    builder.begin(fixture.batch);
  }
  static typename DrafterFixture<T>::Options with_loss(typename DrafterFixture<T>::Options options) {
    options.loss = {.kind = LossKind::dflash, .gamma = 4};
    return options;
  }
  void add(const Document& d) { builder.add_document(d.tokens, d.mask, d.anchors); }
  // The outputs of its supervised slots.
  std::vector<float> block(std::int64_t index) const {
    const auto& rows = fixture.activations.last.output;
    std::vector<float> values;
    for (std::int64_t r = 0; r < rows.rows; ++r) {
      const std::int32_t slot = fixture.batch.loss_index[r];
      if (slot < 0 || slot / fixture.shape.block_size != index) continue;
      values.insert(values.end(), rows.row(r), rows.row(r) + rows.columns);
    }
    EXPECT_FALSE(values.empty());
    return values;
  }

  DrafterFixture<T> fixture;
  MicroBatchBuilder builder;
};

class Visibility : public testing::TestWithParam<std::tuple<LayerKind, bool>> {
 protected:
  DrafterShape shape() const { return drafter_shape(std::get<0>(GetParam()), std::get<1>(GetParam())); }
};

// With overlapping anchors: features at or after an anchor, and other documents, never reach its block.
TEST_P(Visibility, NothingAtOrAfterTheAnchorReachesItsBlock) {
  Packed<float> setup(shape(), 2, 5);
  setup.add(document(0, {0, 9, 10, 20}));
  setup.add(document(1, {12}));
  const BatchCounts counts = setup.builder.finish();
  setup.fixture.forward(counts, LossPass::forward_only);
  const auto at_0 = setup.block(0), at_9 = setup.block(1), at_10 = setup.block(2), other = setup.block(4);
  for (std::int64_t row = 9; row < kLength; ++row)
    fill_random(setup.fixture.features.slice_rows(row, 1), 100 + row);
  setup.fixture.forward(counts, LossPass::forward_only);
  EXPECT_EQ(setup.block(0), at_0);
  EXPECT_EQ(setup.block(1), at_9);
  EXPECT_NE(setup.block(2), at_10) << "the feature of position 9 lies before anchor 10";
  EXPECT_EQ(setup.block(4), other) << "another document";
}

TEST_P(Visibility, BlocksDoNotSeeOneAnother) {
  Packed<float> setup(shape(), 1, 3);
  setup.add(document(0, {4, 5, 11}));
  const BatchCounts counts = setup.builder.finish();
  setup.fixture.forward(counts, LossPass::forward_only);
  const auto first = setup.block(0), second = setup.block(1), third = setup.block(2);
  setup.fixture.batch.draft_tokens[1 * 4] = 33;  // the token at anchor 5
  setup.fixture.forward(counts, LossPass::forward_only);
  EXPECT_EQ(setup.block(0), first);
  EXPECT_NE(setup.block(1), second);
  EXPECT_EQ(setup.block(2), third);
}

INSTANTIATE_TEST_SUITE_P(Layers, Visibility,
                         testing::Combine(testing::Values(LayerKind::full, LayerKind::sliding),
                                          testing::Bool()));

std::vector<double> gradients_of(const DrafterFixture<float>& fixture) {
  return {fixture.weight_gradients.begin(), fixture.weight_gradients.end()};
}

double relative_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(difference / size);
}

// Two documents packed together are the sum of each alone. Sums over rows are taken in another order: some
// hundred terms, so the bound is the square root of 100 roundings for each of the tens of operations between.
TEST(Packing, PackedLossAndGradientsAreTheSumOfSeparateOnes) {
  const DrafterShape shape = drafter_shape(LayerKind::sliding, true);
  Packed<float> together(shape, 2, 4);
  together.add(document(0, {3, 8}));
  together.add(document(1, {0, 15}));
  together.fixture.run(together.builder.finish());

  std::vector<double> sum(together.fixture.table.size);
  double loss = 0;
  for (std::int64_t i = 0; i < 2; ++i) {
    Packed<float> alone(shape, 1, 2);
    for (std::int64_t row = 0; row < kLength; ++row) {
      std::copy_n(together.fixture.features.row(i * kLength + row), shape.feature_width(),
                  alone.fixture.features.row(row));
    }
    alone.add(i == 0 ? document(0, {3, 8}) : document(1, {0, 15}));
    alone.fixture.run(alone.builder.finish());
    loss += alone.fixture.loss.sums[LossSums::kNumerator];
    const auto part = gradients_of(alone.fixture);
    for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += part[j];
  }
  EXPECT_NEAR(together.fixture.loss.sums[LossSums::kNumerator], loss, 1e-6 * loss);
  EXPECT_LT(relative_difference(gradients_of(together.fixture), sum), 10 * 30 * kUnitRoundoff<float>);
}

TEST(Loss, ChunksDoNotChangeIt) {
  const DrafterShape shape = drafter_shape(LayerKind::full, true);
  const auto run = [&](std::int64_t chunk_rows) {
    auto setup = std::make_unique<Packed<float>>(shape, 1, 4, chunk_rows);
    setup->add(document(0, {0, 4, 9, 17}));
    setup->fixture.run(setup->builder.finish());
    return setup;
  };
  const auto whole = run(64), chunked = run(3);
  const double loss = whole->fixture.loss.sums[LossSums::kNumerator];
  EXPECT_NEAR(chunked->fixture.loss.sums[LossSums::kNumerator], loss, 1e-6 * loss);
  EXPECT_LT(relative_difference(gradients_of(chunked->fixture), gradients_of(whole->fixture)),
            30 * kUnitRoundoff<float>);
}

// 0 blocks, every block invalid: no loss, no gradient, and nothing that is not a number.
TEST(Loss, ABatchWithoutBlocksIsNothing) {
  for (const LayerKind kind : {LayerKind::full, LayerKind::sliding}) {
    Packed<float> setup(drafter_shape(kind, true), 1, 3);
    setup.add(document(0, {}));
    const BatchCounts counts = setup.builder.finish();
    EXPECT_EQ(counts.loss_chunks, 0);
    setup.fixture.run(counts);
    for (const double sum : setup.fixture.loss.sums) EXPECT_EQ(sum, 0);
    for (const float gradient : setup.fixture.weight_gradients) ASSERT_EQ(gradient, 0);
  }
}

TEST(Drafter, TheSameRunGivesTheSameBits) {
  for (const int threads : {1, 2}) {
    std::vector<std::vector<float>> results;
    for (int repeat = 0; repeat < 2; ++repeat) {
      Packed<bf16> setup(drafter_shape(LayerKind::sliding, false), 2, 4, 6,
                         {.loss = {}, .device = {.work_worth_sharing = 0, .threads = threads}});
      setup.add(document(0, {3, 8}));
      setup.add(document(1, {0, 15}));
      setup.fixture.run(setup.builder.finish());
      results.emplace_back(setup.fixture.weight_gradients.begin(), setup.fixture.weight_gradients.end());
    }
    EXPECT_EQ(results[0], results[1]);
  }
}

// An exchange may begin with a range as soon as its segment has run.
TEST(Drafter, EveryGradientIsCompleteAfterTheSegmentThatCompletesItsRange) {
  Packed<float> setup(drafter_shape(LayerKind::sliding, true), 2, 4);
  setup.add(document(0, {3, 8}));
  setup.add(document(1, {0, 15}));
  DrafterFixture<float>& fixture = setup.fixture;
  const auto ranges = completed_ranges(fixture.shape, fixture.table);
  std::vector<float> completed(fixture.table.size, std::numeric_limits<float>::quiet_NaN());
  fixture.run(setup.builder.finish(), [&](std::int64_t segment) {
    for (const WeightRange& range : ranges.at(segment)) {
      const Vector<float> values = fixture.weight_gradients.slice(range.begin, range.size);
      std::copy(values.begin(), values.end(), completed.begin() + range.begin);
    }
  });
  for (std::int64_t i = 0; i < fixture.table.size; ++i) ASSERT_EQ(completed[i], fixture.weight_gradients[i]);
}

TEST(Drafter, ALaterBackwardAddsToTheGradientThatTheFirstHasWritten) {
  Packed<float> setup(drafter_shape(LayerKind::sliding, false), 2, 4);
  setup.add(document(0, {3, 8}));
  setup.add(document(1, {0, 15}));
  const BatchCounts counts = setup.builder.finish();
  setup.fixture.run(counts);
  const Vector<const float> gradient = setup.fixture.weight_gradients;
  const std::vector<float> once(gradient.begin(), gradient.end());
  setup.fixture.forward(counts, LossPass::with_gradient);
  setup.fixture.backward(GradientWrite::add, [](std::int64_t) {});
  const WeightTable& table = setup.fixture.table;
  for (const WeightEntry& entry : table.entries) {
    double scale = 0;
    for (std::int64_t i = 0; i < entry.size(); ++i) {
      scale =
          std::max(scale, std::abs(static_cast<double>(once[static_cast<std::size_t>(entry.offset + i)])));
    }
    for (std::int64_t i = 0; i < entry.size(); ++i) {
      // A sum may begin with what was there: another order of some hundred terms.
      const double expected = 2.0 * once[static_cast<std::size_t>(entry.offset + i)];
      ASSERT_NEAR(gradient[entry.offset + i], expected, 256 * kUnitRoundoff<float> * 2 * scale) << entry.name;
    }
  }
}

// Recomputing a layer's activations saves memory and changes no bit, whether the last layer's tail has fewer rows than
// the others' or more.
template <typename T>
void expect_recompute_is_exact(std::int64_t block_size, std::int64_t chunk_rows) {
  DrafterShape shape = drafter_shape(LayerKind::sliding, true);
  shape.block_size = block_size;
  std::vector<std::vector<float>> results;
  std::vector<std::int64_t> bytes;
  for (const Recompute recompute : {Recompute::none, Recompute::layer}) {
    Packed<T> setup(shape, 2, 4, chunk_rows, {.loss = {}, .recompute = recompute});
    setup.add(document(0, {3, 8}));
    setup.add(document(1, {0, 15}));
    setup.fixture.run(setup.builder.finish());
    results.emplace_back(setup.fixture.weight_gradients.begin(), setup.fixture.weight_gradients.end());
    Carver measure;
    carve_drafter_activations<T>(measure, setup.fixture.shape, setup.fixture.budget, recompute);
    bytes.push_back(measure.peak());
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_LT(bytes[1], bytes[0]);
}

TEST(Recompute, GivesTheSameBits) {
  for (const std::int64_t block_size : {2, 4, 16}) {
    for (const std::int64_t chunk_rows : {block_size - 1, std::int64_t{100}}) {
      SCOPED_TRACE(testing::Message() << "blocks of " << block_size << ", chunks of " << chunk_rows);
      expect_recompute_is_exact<float>(block_size, chunk_rows);
      expect_recompute_is_exact<bf16>(block_size, chunk_rows);
    }
  }
}

}  // namespace
}  // namespace draftsmith
