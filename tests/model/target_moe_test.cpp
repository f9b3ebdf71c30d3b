// A target's mixture of experts: how its tensors may lie on disk, dense layers among sparse ones, and what is
// refused. The golden target is one tensor an expert and projection.
#include "model/target_moe.h"

#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "data/safetensors.h"
#include "data/safetensors_writer.h"
#include "support/devices.h"
#include "support/expect_error.h"
#include "support/target_bench.h"
#include "support/temporary_folder.h"

namespace draftsmith {
namespace {

const std::filesystem::path kFolder =
    std::filesystem::path(DRAFTSMITH_SOURCE_DIR) / "tests/golden/target_qwen3_moe";

Device device() { return test::device_options().device; }

struct Values {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};
using Tensors = std::map<std::string, Values>;

Tensors golden_tensors() {
  const SafetensorsFile file(kFolder / "model.safetensors");
  Tensors tensors;
  for (const std::string& name : file.names()) {
    Values& tensor = tensors[name];
    tensor.shape = file.at(name).shape;
    tensor.values.resize(static_cast<std::size_t>(file.at(name).elements()));
    read_as(file.at(name), std::span<float>(tensor.values));
  }
  return tensors;
}

void write_tensors(const std::filesystem::path& folder, const Tensors& tensors) {
  std::vector<TensorDeclaration> declared;
  for (const auto& [name, tensor] : tensors)
    declared.push_back({.name = name, .type = FileType::f32, .shape = tensor.shape});
  SafetensorsWriter writer(folder / "model.safetensors", declared);
  for (const auto& [name, tensor] : tensors) writer.write(name, tensor.values);
  writer.finish();
}

// Takes the matrices of all experts out, one below another.
Values take_stacked(Tensors& tensors, const std::string& prefix, const std::vector<std::string>& names) {
  Values stacked;
  std::int64_t experts = 0, rows = 0;
  for (; tensors.contains(prefix + std::to_string(experts) + "." + names[0] + ".weight"); ++experts) {
    rows = 0;
    for (const std::string& name : names) {
      const auto node = tensors.extract(prefix + std::to_string(experts) + "." + name + ".weight");
      const Values& one = node.mapped();
      rows += one.shape[0];
      stacked.shape = {0, 0, one.shape[1]};
      stacked.values.insert(stacked.values.end(), one.values.begin(), one.values.end());
    }
  }
  stacked.shape[0] = experts;
  stacked.shape[1] = rows;
  return stacked;
}

Values exchanged(const Values& tensor) {
  const std::int64_t experts = tensor.shape[0], rows = tensor.shape[1], columns = tensor.shape[2];
  Values result{.shape = {experts, columns, rows}, .values = std::vector<float>(tensor.values.size())};
  for (std::int64_t e = 0; e < experts; ++e) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        result.values[(e * columns + c) * rows + r] = tensor.values[(e * rows + r) * columns + c];
      }
    }
  }
  return result;
}

Tensors fused_tensors(const std::function<Values(const Values&)>& store) {
  Tensors tensors = golden_tensors();
  for (int layer = 0; layer < 4; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".mlp.experts.";
    const Values gate_up = take_stacked(tensors, prefix, {"gate_proj", "up_proj"});
    const Values down = take_stacked(tensors, prefix, {"down_proj"});
    tensors[prefix + "gate_up_proj"] = store(gate_up);
    tensors[prefix + "down_proj"] = store(down);
  }
  return tensors;
}

bool same_experts(const TargetBench<float>& a, const TargetBench<float>& b, std::size_t layer) {
  const auto same = [&](Matrix<float> ExpertWeights<float>::*which) {
    const std::vector<float> one = a.on_host(a.weights.layers[layer].experts.*which);
    const std::vector<float> other = b.on_host(b.weights.layers[layer].experts.*which);
    return !one.empty() && one.size() == other.size() &&
           std::memcmp(one.data(), other.data(), one.size() * sizeof(float)) == 0;
  };
  using Weights = ExpertWeights<float>;
  return same(&Weights::router) && same(&Weights::gate_up) && same(&Weights::down);
}

TEST(TargetMoe, FusedExpertsAreReadByTheirShape) {
  const TargetShape shape = read_target_shape(kFolder);
  const TargetBench<float> apart(kFolder, shape, {.rows = 1, .device = device()});
  for (const bool is_exchanged : {false, true}) {
    const TemporaryFolder folder;
    write_tensors(folder.path(), fused_tensors([&](const Values& tensor) {
                    return is_exchanged ? exchanged(tensor) : tensor;
                  }));
    const TargetBench<float> fused(folder.path(), shape, {.rows = 1, .device = device()});
    for (std::size_t layer = 0; layer < 4; ++layer) {
      EXPECT_TRUE(same_experts(fused, apart, layer));
    }
  }
}

// width 64, intermediate 32: gate over up is square, and down says how both are stored.
TEST(TargetMoe, ASquareProductIsReadAsTheOtherOneSays) {
  TargetShape shape = read_target_shape(kFolder);
  shape.experts.intermediate = 32;
  Tensors tensors = golden_tensors();
  const auto shorten = [](Values& tensor, std::int64_t rows, std::int64_t columns) {
    Values cut{.shape = {rows, columns}, .values = {}};
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) cut.values.push_back(tensor.values[r * tensor.shape[1] + c]);
    }
    tensor = cut;
  };
  for (auto& [name, tensor] : tensors) {
    if (name.find("experts") == std::string::npos) continue;
    const bool is_down = name.find("down_proj") != std::string::npos;
    shorten(tensor, is_down ? 64 : 32, is_down ? 32 : 64);
  }
  const TemporaryFolder apart, fused;
  write_tensors(apart.path(), tensors);
  for (int layer = 0; layer < 4; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".mlp.experts.";
    const Values gate_up = take_stacked(tensors, prefix, {"gate_proj", "up_proj"});
    const Values down = take_stacked(tensors, prefix, {"down_proj"});
    tensors[prefix + "gate_up_proj"] = exchanged(gate_up);
    tensors[prefix + "down_proj"] = exchanged(down);
  }
  write_tensors(fused.path(), tensors);
  const TargetBench<float> expected(apart.path(), shape, {.rows = 1, .device = device()});
  const TargetBench<float> found(fused.path(), shape, {.rows = 1, .device = device()});
  EXPECT_TRUE(same_experts(found, expected, 2));
}

TEST(TargetMoe, ExpertsOfOtherSizesAreRefused) {
  const auto expect_refused = [](const std::filesystem::path& folder, const TargetShape& shape,
                                 std::initializer_list<std::string_view> parts) {
    expect_error([&] { TargetBench<float>(folder, shape, {.rows = 1, .device = device()}); }, parts);
  };
  TargetShape shape = read_target_shape(kFolder);
  shape.experts.count = 9;
  expect_refused(kFolder, shape, {"model.layers.0.mlp.gate.weight", "[8, 64]", "[9, 64]"});
  shape = read_target_shape(kFolder);
  shape.experts.intermediate = 40;
  expect_refused(kFolder, shape, {"model.layers.0.mlp.experts.0.gate_proj.weight", "[48, 64]", "[40, 64]"});
  const TemporaryFolder fused;
  write_tensors(fused.path(), fused_tensors([](const Values& tensor) { return tensor; }));
  expect_refused(fused.path(), shape,
                 {"tensor 'model.layers.0.mlp.experts.gate_up_proj' has shape [8, 96, 64]",
                  "down_proj' has [8, 64, 48]", "expected [8, 80, 64] and [8, 64, 40]", "exchanged"});
  Tensors missing = golden_tensors();
  missing.erase("model.layers.3.mlp.experts.7.up_proj.weight");
  const TemporaryFolder incomplete;
  write_tensors(incomplete.path(), missing);
  expect_refused(incomplete.path(), read_target_shape(kFolder),
                 {"model.layers.3.mlp.experts.7.up_proj.weight"});
}

// A dense layer whose only expert's weights a sparse layer of one expert has gives the same: weight 1.
TEST(TargetMoe, DenseLayersStandAmongSparseOnes) {
  TargetShape sparse = read_target_shape(kFolder);
  sparse.experts = {.count = 1, .chosen = 1, .intermediate = 48, .normalise = true};
  sparse.intermediate = 48;
  TargetShape mixed = sparse;
  mixed.sparse_layers = {true, false, true, false};
  Tensors tensors = golden_tensors();
  for (int layer = 0; layer < 4; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".mlp.";
    Values& router = tensors[prefix + "gate.weight"];
    router = {.shape = {1, 64}, .values = std::vector<float>(64, 0.5f)};
    for (const char* name : {"gate_proj", "up_proj", "down_proj"})
      tensors[prefix + name + ".weight"] = tensors[prefix + "experts.0." + name + ".weight"];
  }
  const TemporaryFolder folder;
  write_tensors(folder.path(), tensors);
  TargetBench<float> all(folder.path(), sparse, {.rows = 8}), some(folder.path(), mixed, {.rows = 8});
  EXPECT_EQ(some.weights.layers[1].experts.router.rows, 0);
  EXPECT_EQ(some.weights.layers[0].gate_up.rows, 0);
  const std::vector<TargetRow> rows = packed_rows({{1, 2, 3, 4, 5}});
  all.run(rows, 0, TargetOutputs::logits);
  some.run(rows, 0, TargetOutputs::logits);
  // On the CPU both make an entry as the same chain of multiply-adds; one expert's weight is 1.
  EXPECT_EQ(std::memcmp(all.logits.data, some.logits.data, 5 * sizeof(float) * all.logits.columns), 0);
}

TEST(TargetMoe, MoreExpertsThanAreComputedAreRefused) {
  TargetConfigFile file = read_target_config(kFolder);
  file.experts.num_experts = kMostExperts + 1;
  expect_error([&] { target_shape(file); }, {"1025 experts", "at most 1024"});
}

}  // namespace
}  // namespace draftsmith
