#include "model/weights.h"

#include <cmath>
#include <set>

#include <gtest/gtest.h>

namespace draftsmith {
namespace {

DrafterShape small(bool bias) {
  return {.layers = 2,
          .width = 10,
          .intermediate = 14,
          .query_heads = 4,
          .kv_heads = 2,
          .head_dim = 6,
          .vocabulary = 50,
          .block_size = 4,
          .taps = {0, 1, 2},
          .attention_bias = bias,
          .layer_kinds = {LayerKind::full, LayerKind::full}};
}

TEST(WeightTable, EntriesDoNotOverlapAndMatricesComeFirst) {
  const WeightTable table = drafter_weight_table(small(true));
  std::set<std::string> names;
  std::int64_t end = 0;
  for (const WeightEntry& entry : table.entries) {
    EXPECT_GE(entry.offset, end) << entry.name;
    EXPECT_EQ(entry.columns > 0, entry.offset < table.decayed)
        << entry.name << ": matrices decay, vectors do not";
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    end = entry.offset + entry.size();
  }
  EXPECT_LE(end, table.size);
}

// What a GPU multiplies at once lies side by side.
TEST(WeightTable, KeysAndValuesOfAllLayersAreOneMatrix) {
  const DrafterShape shape = small(true);
  const WeightTable table = drafter_weight_table(shape);
  std::vector<float> flat(table.size);
  const auto weights = view_weights<float>(shape, table, {flat.data(), table.size});
  EXPECT_EQ(weights.all_key_value.rows, 2 * 2 * 12);
  const auto place = [&](const std::string& name) { return flat.data() + table.find(name).offset; };
  EXPECT_EQ(weights.all_key_value.row(12), place("layers.0.self_attn.v_proj.weight"));
  EXPECT_EQ(weights.layers[1].key_value.data, place("layers.1.self_attn.k_proj.weight"));
  EXPECT_EQ(weights.layers[1].gate_up.row(14), place("layers.1.mlp.up_proj.weight"));
  EXPECT_EQ(weights.layers[1].key_value_bias.data, place("layers.1.self_attn.k_proj.bias"));
  EXPECT_EQ(weights.all_key_value_bias.data + 36, place("layers.1.self_attn.v_proj.bias"));
}

TEST(InitialWeights, AreAPureFunctionOfTheSeed) {
  const WeightTable table = drafter_weight_table(small(true));
  std::vector<float> a(table.size), b(table.size), c(table.size);
  initialise_weights(table, 1, {a.data(), table.size});
  initialise_weights(table, 1, {b.data(), table.size});
  initialise_weights(table, 2, {c.data(), table.size});
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  EXPECT_EQ(a[table.find("norm.weight").offset], 1.0f);
  EXPECT_EQ(a[table.find("layers.0.self_attn.q_proj.bias").offset], 0.0f);
  double squares = 0;
  const WeightEntry& fc = table.find("fc.weight");
  for (std::int64_t i = 0; i < fc.size(); ++i) squares += a[fc.offset + i] * a[fc.offset + i];
  // Five standard errors of a sample deviation: sigma / sqrt(2 n).
  EXPECT_NEAR(std::sqrt(squares / fc.size()), 0.02, 5 * 0.02 / std::sqrt(2.0 * fc.size()));
}

}  // namespace
}  // namespace draftsmith
