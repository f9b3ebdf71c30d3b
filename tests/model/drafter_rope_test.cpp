// A drafter's rope from its config.json to the queries and keys that attention sees.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "model/drafter_export.h"
#include "model/drafter_fixture.h"
#include "model/drafter_loader.h"
#include "model/target_shape.h"
#include "support/expect_error.h"

namespace draftsmith {
namespace {

constexpr std::int32_t kPositions[] = {0, 700, 4096, 32768};

DrafterShape shape_with(const RopeShape& rope) {
  return {.layers = 1,
          .width = 32,
          .intermediate = 16,
          .query_heads = 2,
          .kv_heads = 1,
          .head_dim = 16,
          .vocabulary = 11,
          .max_positions = 32769,
          .target_layers = 4,
          .block_size = 4,
          .taps = {1},
          .mask_token_id = 10,
          .rope = rope,
          .layer_kinds = {LayerKind::full}};
}

// A context token and a slot at each of the positions.
struct RotatedDrafter {
  explicit RotatedDrafter(const DrafterShape& shape)
      : fixture(shape, {.context_tokens = 4, .blocks = 1, .block_size = 4, .loss_chunk_rows = 4}, {}) {
    std::vector<float> masters(static_cast<std::size_t>(fixture.table.size));
    initialise_weights(fixture.table, 3, {masters.data(), fixture.table.size});
    fixture.set_weights({masters.data(), fixture.table.size});
    const Random random(4, RandomStream::noise, 0);
    for (std::int64_t i = 0; i < fixture.features.rows * fixture.features.columns; ++i)
      fixture.features.data[i] = static_cast<float>(random.normal(i));
    for (std::int64_t i = 0; i < fixture.embedding.rows * fixture.embedding.columns; ++i)
      fixture.embedding.data[i] = fixture.head.data[i] = static_cast<float>(random.normal(1000 + i));
  }

  void run(const std::vector<std::int32_t>& positions) {
    MicroBatch& batch = fixture.batch;
    for (std::int64_t i = 0; i < 4; ++i) {
      batch.tokens[i] = static_cast<std::int32_t>(i);
      batch.draft_tokens[i] = i == 0 ? 0 : 10;  // the mask token
      batch.positions[i] = batch.draft_positions[i] = positions[static_cast<std::size_t>(i)];
      batch.context_begin[i] = batch.sliding_begin[i] = 0;
      batch.context_end[i] = 4;
    }
    std::fill(batch.loss_index.begin(), batch.loss_index.end(), -1);
    std::fill(batch.loss_labels.begin(), batch.loss_labels.end(), -1);
    std::fill(batch.loss_blocks.begin(), batch.loss_blocks.end(), 0);
    std::fill(batch.loss_offsets.begin(), batch.loss_offsets.end(), 0);
    fixture.forward({.documents = 1, .context_tokens = 4, .blocks = 1}, LossPass::with_gradient);
  }

  DrafterFixture<float> fixture;
};

std::vector<float> copy_of(Matrix<float> matrix) {
  return {matrix.data, matrix.data + matrix.rows * matrix.columns};
}

// The published formulas, once more, in long double: the angle of pair i at a position, and the factor.
struct Turn {
  long double frequency, factor;
};
Turn published(const RopeShape& rope, std::int64_t head_dim, std::int64_t pair) {
  const long double theta = rope.theta, size = head_dim, factor = rope.factor;
  const long double plain = 1 / std::pow(theta, 2 * static_cast<long double>(pair) / size);
  if (rope.scaling == RopeScaling::none) return {plain, 1};
  if (rope.scaling == RopeScaling::linear) return {plain / factor, 1};
  const auto place = [&](long double turns) {
    return size * std::log(rope.original_positions / (turns * 2 * std::numbers::pi_v<long double>)) /
           (2 * std::log(theta));
  };
  const long double low = std::max(std::floor(place(32)), 0.0L);
  const long double high = std::min(std::ceil(place(1)), size - 1);
  const long double ramp = std::clamp((pair - low) / (high - low), 0.0L, 1.0L);
  return {plain / factor * ramp + plain * (1 - ramp), 0.1L * std::log(factor) + 1};
}

// `turned` is `still` (the same rows at position 0, where only the attention factor acts) turned. One float
// rounding each of cosine, sine, two products and a sum on values up to twice the largest; the table's angle
// is off by its double rounding, position * 2^-51. The attention factor is in `still` already, once rounded.
void expect_turned(Matrix<float> turned, const std::vector<float>& still, const RopeShape& rope,
                   std::int64_t head_dim) {
  const std::int64_t half = head_dim / 2;
  for (std::int64_t row = 0; row < turned.rows; ++row) {
    for (std::int64_t column = 0; column < turned.columns; ++column) {
      const std::int64_t in_head = column % head_dim, pair = in_head % half;
      const std::int64_t first = row * turned.columns + column - in_head + pair;
      const long double a = still[first], b = still[first + half];
      const long double angle = kPositions[row] * published(rope, head_dim, pair).frequency;
      const long double expected = in_head < half ? a * std::cos(angle) - b * std::sin(angle)
                                                  : b * std::cos(angle) + a * std::sin(angle);
      const double size = static_cast<double>(std::abs(a) + std::abs(b));
      EXPECT_NEAR(turned(row, column), static_cast<double>(expected),
                  size * (5 * 0x1p-24 + kPositions[row] * 0x1p-51))
          << "position " << kPositions[row] << " column " << column;
    }
  }
}

const RopeShape kScaled[] = {
    {.theta = 1e6},
    {.theta = 1e4, .scaling = RopeScaling::linear, .factor = 4},
    {.theta = 1e6,
     .scaling = RopeScaling::yarn,
     .factor = 4,
     .original_positions = 4096,
     .attention_factor = yarn_attention_factor(4)},
};

TEST(DrafterRopeInUse, QueriesAndKeysTurnAsTheExportSays) {
  for (const RopeShape& rope : kScaled) {
    const std::string exported = write_drafter_config(drafter_config_file(shape_with(rope)));
    const DrafterShape read = drafter_shape(parse_drafter_config(exported, "config.json"));
    RotatedDrafter drafter(shape_with(rope)), served(read);
    drafter.run({0, 0, 0, 0});
    const LayerSaved<float>& layer = drafter.fixture.activations.layers[0];
    const DrafterContext<float>& context = drafter.fixture.activations.context;
    const std::vector<float> query = copy_of(layer.rotated_query), key = copy_of(layer.rotated_key);
    const std::vector<float> context_key = copy_of(context.keys);
    for (RotatedDrafter* run : {&drafter, &served}) {
      run->run({std::begin(kPositions), std::end(kPositions)});
      const LayerSaved<float>& turned = run->fixture.activations.layers[0];
      expect_turned(turned.rotated_query, query, rope, 16);
      expect_turned(turned.rotated_key, key, rope, 16);
      expect_turned(run->fixture.activations.context.keys, context_key, rope, 16);
    }
  }
}

// At position 0 nothing turns: what is left is the attention factor.
TEST(DrafterRopeInUse, YarnScalesQueriesAndKeys) {
  RotatedDrafter plain(shape_with({.theta = 1e6})), scaled(shape_with(kScaled[2]));
  plain.run({0, 0, 0, 0});
  scaled.run({0, 0, 0, 0});
  const auto factor = static_cast<float>(published(kScaled[2], 16, 0).factor);
  const std::vector<float> before = copy_of(plain.fixture.activations.context.keys);
  const std::vector<float> after = copy_of(scaled.fixture.activations.context.keys);
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(after[i], before[i] * factor);
}

TEST(DrafterRopeInUse, ShapesComeBackFromTheExport) {
  for (const RopeShape& rope : kScaled) {
    DrafterConfigFile file = drafter_config_file(shape_with(rope));
    file.decoder.dtype = "bfloat16";
    EXPECT_EQ(drafter_shape(file).rope, rope);
    EXPECT_EQ(parse_drafter_config(write_drafter_config(file), "config.json"), file);
  }
  RopeShape stated = kScaled[2];
  stated.attention_factor = 1.5;
  stated.beta_fast = 24;
  stated.truncate = false;
  EXPECT_EQ(rope_shape(rope_config(stated)), stated);
}

TEST(DrafterRopeInUse, Llama3ScalingIsRefused) {
  DrafterConfigFile file = drafter_config_file(shape_with({.theta = 1e6}));
  file.decoder.rope = {.rope_type = "llama3",
                       .rope_theta = 5e5,
                       .factor = 8,
                       .low_freq_factor = 1,
                       .high_freq_factor = 4,
                       .original_max_position_embeddings = 8192};
  expect_error([&] { drafter_shape(file); }, {"rope scaling llama3 cannot be served with a drafter"});
}

}  // namespace
}  // namespace draftsmith
