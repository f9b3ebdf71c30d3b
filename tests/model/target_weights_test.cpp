#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "data/safetensors.h"
#include "data/safetensors_writer.h"
#include "model/target.h"
#include "model/target_shape.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"
#include "tensor/arena.h"

namespace draftsmith {
namespace {

const std::filesystem::path kGolden = std::filesystem::path(DRAFTSMITH_SOURCE_DIR) / "tests/golden";

// Weights of a folder, read with a shape that may not be its own.
template <typename T>
struct LoadedTarget {
  LoadedTarget(const std::filesystem::path& folder, const TargetShape& shape) {
    Carver counting;
    carve_target_weights<T>(counting, shape, shape.layers);
    arena = Arena(Device{}, counting.peak());
    Carver carver = arena.carver();
    weights = carve_target_weights<T>(carver, shape, shape.layers);
    const Device device;
    load_target_weights({&device}, folder, shape, weights);
  }

  Arena arena;
  TargetWeights<T> weights;
};

void expect_refused(const std::filesystem::path& folder, const TargetShape& shape,
                    std::initializer_list<std::string_view> parts) {
  expect_error([&] { LoadedTarget<float>(folder, shape); }, parts);
}

// A copy of a golden target's weights in which one value is replaced.
void write_with_value(const std::filesystem::path& folder, const std::filesystem::path& out,
                      const std::string& tensor, float value) {
  const SafetensorsFile file(folder / "model.safetensors");
  std::vector<TensorDeclaration> declared;
  for (const std::string& name : file.names()) {
    declared.push_back({.name = name, .type = FileType::f32, .shape = file.at(name).shape});
  }
  SafetensorsWriter writer(out / "model.safetensors", declared);
  for (const std::string& name : file.names()) {
    std::vector<float> values(static_cast<std::size_t>(file.at(name).elements()));
    read_as(file.at(name), std::span<float>(values));
    if (name == tensor) values[3] = value;
    writer.write(name, values);
  }
  writer.finish();
}

TEST(TargetWeightsTest, AMissingHeadIsNotGuessed) {
  const auto folder = kGolden / "target_qwen2_tied";
  TargetShape shape = read_target_shape(folder);
  ASSERT_TRUE(shape.tied_head);
  shape.tied_head = false;
  expect_refused(folder, shape, {"lm_head.weight", "tie_word_embeddings"});
}

TEST(TargetWeightsTest, ATiedHeadIsTheEmbeddingItself) {
  const auto folder = kGolden / "target_qwen2_tied";
  const LoadedTarget<float> target(folder, read_target_shape(folder));
  EXPECT_EQ(target.weights.tables.head.data, target.weights.tables.embedding.data);
}

TEST(TargetWeightsTest, AWrongShapeNamesTheTensor) {
  const auto folder = kGolden / "target_qwen3";
  TargetShape shape = read_target_shape(folder);
  shape.intermediate = 96;
  expect_refused(folder, shape, {"model.layers.0.mlp.gate_proj.weight", "[112, 64]", "[96, 64]"});
}

TEST(TargetWeightsTest, ALayerTooManyNamesTheTensor) {
  const auto folder = kGolden / "target_llama";
  TargetShape shape = read_target_shape(folder);
  shape.layers = 5;
  expect_refused(folder, shape, {"model.layers.4.input_layernorm.weight"});
}

TEST(TargetWeightsTest, BiasesAndHeadNormsThatTheShapeLacksAreNotDropped) {
  TargetShape qwen2 = read_target_shape(kGolden / "target_qwen2_tied");
  qwen2.qkv_bias = false;
  expect_refused(kGolden / "target_qwen2_tied", qwen2, {"self_attn.q_proj.bias", "attention_bias"});
  TargetShape qwen3 = read_target_shape(kGolden / "target_qwen3");
  qwen3.head_norm = false;
  expect_refused(kGolden / "target_qwen3", qwen3, {"self_attn.q_norm.weight", "model_type"});
}

TEST(TargetWeightsTest, ValuesThatAreNotFiniteNameTheTensor) {
  const auto folder = kGolden / "target_llama";
  const std::string tensor = "model.layers.2.self_attn.v_proj.weight";
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const TemporaryFolder broken;
    write_with_value(folder, broken.path(), tensor, value);
    expect_refused(broken.path(), read_target_shape(folder), {tensor, "element 3", "finite"});
  }
}

// A folder whose config.json says nothing of it: the tensors are looked at before any is read.
TEST(TargetWeightsTest, QuantisedTensorsAreRefused) {
  const TemporaryFolder folder;
  const std::vector<TensorDeclaration> declared{
      {.name = "model.layers.0.mlp.down_proj.qweight", .type = FileType::f32, .shape = {1}}};
  SafetensorsWriter writer(folder.path() / "model.safetensors", declared);
  writer.write(declared[0].name, std::vector<float>{0});
  writer.finish();
  const TargetShape shape = read_target_shape(kGolden / "target_llama");
  expect_refused(folder.path(), shape, {"model.layers.0.mlp.down_proj.qweight", "AWQ or GPTQ form"});
}

// q, k and v lie below one another, gate over up: each part is the file's tensor.
TEST(TargetWeightsTest, FusedMatricesHoldTheFilesTensorsInOrder) {
  const auto folder = kGolden / "target_llama";
  const TargetShape shape = read_target_shape(folder);
  const LoadedTarget<float> target(folder, shape);
  const SafetensorsFile file(folder / "model.safetensors");
  const auto expect_rows = [&](Matrix<float> fused, std::int64_t first, const std::string& name) {
    const TensorEntry& entry = file.at("model.layers.1." + name);
    std::vector<float> values(static_cast<std::size_t>(entry.elements()));
    read_as(entry, std::span<float>(values));
    EXPECT_TRUE(std::equal(values.begin(), values.end(), fused.row(first))) << name;
  };
  const TargetLayerWeights<float>& layer = target.weights.layers[1];
  expect_rows(layer.query_key_value, 0, "self_attn.q_proj.weight");
  expect_rows(layer.query_key_value, shape.query_width(), "self_attn.k_proj.weight");
  expect_rows(layer.query_key_value, shape.query_width() + shape.kv_width(), "self_attn.v_proj.weight");
  expect_rows(layer.gate_up, 0, "mlp.gate_proj.weight");
  expect_rows(layer.gate_up, shape.intermediate, "mlp.up_proj.weight");
}

TEST(TargetWeightsTest, HeadersAloneSayWhatLoadingWould) {
  for (const auto& item : std::filesystem::directory_iterator(kGolden)) {
    if (!item.path().filename().string().starts_with("target_")) continue;
    SCOPED_TRACE(item.path().string());
    const TargetShape shape = read_target_shape(item.path());
    EXPECT_NO_THROW(check_target_weights(item.path(), shape, shape.layers));
    TargetShape other = shape;
    other.width /= 2;
    expect_error([&] { check_target_weights(item.path(), other, shape.layers); }, {"expected shape"});
    other = shape;
    other.layers += 1;
    other.sparse_layers.resize(shape.sparse_layers.empty() ? 0 : other.layers, true);
    expect_error([&] { check_target_weights(item.path(), other, other.layers); },
                 {"model.layers." + std::to_string(shape.layers)});
    EXPECT_NO_THROW(check_target_weights(item.path(), other, shape.layers));  // those that are read
  }
}

TEST(TargetWeightsTest, LayersBeyondThoseOfTheConfigurationAreRefused) {
  TargetShape shape = read_target_shape(kGolden / "target_llama");
  shape.layers -= 1;
  expect_error(
      [&] { check_target_weights(kGolden / "target_llama", shape, shape.layers); },
      {"tensor 'model.layers." + std::to_string(shape.layers) + ".", "expected tensors of the layers 0 to ",
       "num_hidden_layers in config.json is " + std::to_string(shape.layers),
       "do config.json and the weights"});
}

TEST(TargetWeightsTest, HeadersSayTheTypeToo) {
  const TemporaryFolder folder;
  const std::vector<TensorDeclaration> declared{
      {.name = "model.embed_tokens.weight", .type = FileType::f32, .shape = {96, 64}}};
  SafetensorsWriter writer(folder.path() / "model.safetensors", declared);
  writer.write(declared[0].name, std::vector<float>(96 * 64));
  writer.finish();
  std::string bytes;
  {
    std::ifstream stream(folder.path() / "model.safetensors", std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(stream), {});
  }
  bytes.replace(bytes.find("F32"), 3, "I32");
  folder.write("model.safetensors", bytes);
  TargetShape shape = read_target_shape(kGolden / "target_llama");
  shape.vocabulary = 96;
  shape.width = 64;
  expect_error([&] { check_target_weights(folder.path(), shape, 0); },
               {"model.embed_tokens.weight", "expected BF16, F16, F32 or F64, found I32"});
}

}  // namespace
}  // namespace draftsmith
