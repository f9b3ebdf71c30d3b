#include "data/drafter_folder.h"

#include <map>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/file.h"
#include "data/safetensors_writer.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace draftsmith {
namespace {

const std::filesystem::path kGoldenDrafter =
    std::filesystem::path(DRAFTSMITH_SOURCE_DIR) / "tests/golden/spec_tiny/drafter";

// The published layout, written from its description.
std::vector<std::string> expected_drafter_tensor_names(int layers, bool attention_bias) {
  std::vector<std::string> names{"fc.weight", "hidden_norm.weight", "norm.weight"};
  for (int i = 0; i < layers; ++i) {
    const std::string layer = "layers." + std::to_string(i) + ".";
    for (const char* name : {"input_layernorm.weight", "post_attention_layernorm.weight",
                             "self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight",
                             "self_attn.o_proj.weight", "self_attn.q_norm.weight", "self_attn.k_norm.weight",
                             "mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight"})
      names.push_back(layer + name);
    if (attention_bias)
      for (const char* name : {"self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias",
                               "self_attn.o_proj.bias"})
        names.push_back(layer + name);
  }
  return names;
}

DrafterConfigFile golden_config() { return DrafterFolder(kGoldenDrafter).config(); }

std::vector<std::string> names_of(const std::vector<DrafterTensorShape>& tensors) {
  std::vector<std::string> names;
  for (const DrafterTensorShape& tensor : tensors) names.push_back(tensor.name);
  return names;
}

// Every tensor of a configuration with values that differ from place to place.
struct Weights {
  std::vector<std::vector<float>> values;
  std::vector<DrafterTensor> tensors;

  explicit Weights(const DrafterConfigFile& config) {
    const std::vector<DrafterTensorShape> shapes = drafter_tensors(config);
    values.reserve(shapes.size());
    for (const DrafterTensorShape& tensor : shapes) {
      std::vector<float>& data = values.emplace_back(static_cast<std::size_t>(*element_count(tensor.shape)));
      std::iota(data.begin(), data.end(), 0.001f + static_cast<float>(values.size()));
      tensors.push_back({tensor.name, tensor.shape, data});
    }
  }
};

// Writes weights of any names and shapes beside the golden configuration.
void write_weights(const std::filesystem::path& folder, const std::vector<DrafterTensorShape>& tensors) {
  std::filesystem::copy_file(kGoldenDrafter / "config.json", folder / "config.json",
                             std::filesystem::copy_options::overwrite_existing);
  std::vector<TensorDeclaration> declarations;
  for (const DrafterTensorShape& tensor : tensors)
    declarations.push_back({tensor.name, FileType::bf16, tensor.shape});
  SafetensorsWriter writer(folder / "model.safetensors", declarations);
  for (const DrafterTensorShape& tensor : tensors)
    writer.write(tensor.name,
                 std::vector<float>(static_cast<std::size_t>(*element_count(tensor.shape)), 0.5f));
  writer.finish();
}

TEST(DrafterFolder, HasTheNamesOfTheSpecification) {
  DrafterConfigFile config = golden_config();
  EXPECT_THAT(names_of(drafter_tensors(config)),
              testing::UnorderedElementsAreArray(expected_drafter_tensor_names(2, false)));
  EXPECT_THAT(SafetensorsFile(kGoldenDrafter / "model.safetensors").names(),
              testing::UnorderedElementsAreArray(expected_drafter_tensor_names(2, false)));
  config.attention_bias = true;
  EXPECT_THAT(names_of(drafter_tensors(config)),
              testing::UnorderedElementsAreArray(expected_drafter_tensor_names(2, true)));
}

TEST(DrafterFolder, ReadsTheGoldenDrafterWithItsShapes) {
  const DrafterFolder folder(kGoldenDrafter);
  const auto shape = [&](std::string_view name) { return folder.tensor(name).shape; };
  EXPECT_THAT(shape("fc.weight"), testing::ElementsAre(64, 128));
  EXPECT_THAT(shape("layers.1.self_attn.k_proj.weight"), testing::ElementsAre(32, 64));
  EXPECT_THAT(shape("layers.1.self_attn.q_norm.weight"), testing::ElementsAre(16));
  EXPECT_THAT(shape("layers.0.mlp.down_proj.weight"), testing::ElementsAre(64, 112));
}

TEST(DrafterFolder, WhatIsWrittenIsReadBackRoundedToBf16) {
  const TemporaryFolder temporary;
  const std::filesystem::path path = temporary.path() / "run" / "export";
  DrafterConfigFile config = golden_config();
  config.attention_bias = true;
  Weights weights(config);
  std::reverse(weights.tensors.begin(), weights.tensors.end());
  write_drafter_folder(path, config, weights.tensors);

  const DrafterFolder folder(path);
  config.decoder.dtype = "bfloat16";
  EXPECT_EQ(folder.config(), config);
  for (const DrafterTensor& tensor : weights.tensors) {
    const TensorEntry& entry = folder.tensor(tensor.name);
    EXPECT_EQ(entry.type, FileType::bf16);
    std::vector<float> read(tensor.values.size());
    read_as(entry, std::span(read));
    for (std::size_t i = 0; i < read.size(); ++i)
      ASSERT_EQ(read[i], static_cast<float>(bf16(tensor.values[i]))) << tensor.name;
  }
}

TEST(DrafterFolder, WritesTwoFilesInTheOrderOfTheSpecification) {
  const TemporaryFolder temporary;
  const DrafterConfigFile config = golden_config();
  write_drafter_folder(temporary.path(), config, Weights(config).tensors);
  std::vector<std::string> files;
  for (const auto& item : std::filesystem::directory_iterator(temporary.path()))
    files.push_back(item.path().filename().string());
  EXPECT_THAT(files, testing::UnorderedElementsAre("config.json", "model.safetensors"));
  const std::string text = read_text_file(temporary.path() / "model.safetensors");
  std::size_t place = 0;
  for (const char* name : {"fc.weight", "hidden_norm.weight", "layers.0.input_layernorm.weight",
                           "layers.0.self_attn.q_proj.weight", "layers.0.mlp.down_proj.weight",
                           "layers.1.input_layernorm.weight", "\"norm.weight"}) {
    const std::size_t found = text.find(name);
    ASSERT_NE(found, std::string::npos) << name;
    EXPECT_GT(found, place) << name;
    place = found;
  }
}

TEST(DrafterFolder, AcceptsNamesWithAPrefix) {
  const TemporaryFolder temporary;
  std::vector<DrafterTensorShape> tensors = drafter_tensors(golden_config());
  for (DrafterTensorShape& tensor : tensors) tensor.name = "model." + tensor.name;
  write_weights(temporary.path(), tensors);
  EXPECT_THAT(DrafterFolder(temporary.path()).tensor("fc.weight").shape, testing::ElementsAre(64, 128));
}

TEST(DrafterFolder, NamesMissingAndUnknownTensors) {
  const TemporaryFolder temporary;
  std::vector<DrafterTensorShape> tensors = drafter_tensors(golden_config());
  tensors.back().name = "nrom.weight";
  write_weights(temporary.path(), tensors);
  expect_error(
      [&] { DrafterFolder folder(temporary.path()); },
      {temporary.path().string(), "the 25 tensors", "missing: norm.weight;", "unknown: nrom.weight;"});
  tensors = drafter_tensors(golden_config());
  tensors.push_back({"embed_tokens.weight", {96, 64}});
  write_weights(temporary.path(), tensors);
  expect_error([&] { DrafterFolder folder(temporary.path()); },
               {"missing: none;", "unknown: embed_tokens.weight;"});
  write_weights(temporary.path(), {{"other", {1}}});
  expect_error([&] { DrafterFolder folder(temporary.path()); }, {"missing: fc.weight, ", " and 20 more;"});
}

TEST(DrafterFolder, NamesATensorOfAnotherShape) {
  const TemporaryFolder temporary;
  std::vector<DrafterTensorShape> tensors = drafter_tensors(golden_config());
  tensors.front().shape = {64, 192};
  write_weights(temporary.path(), tensors);
  expect_error([&] { DrafterFolder folder(temporary.path()); },
               {"model.safetensors", "tensor 'fc.weight'", "expected shape [64, 128], found [64, 192]"});
}

TEST(DrafterFolder, NeedsBothFiles) {
  const TemporaryFolder temporary;
  expect_error([&] { DrafterFolder folder(temporary.path()); }, {"config.json", "No such file"});
  std::filesystem::copy_file(kGoldenDrafter / "config.json", temporary.path() / "config.json");
  expect_error([&] { DrafterFolder folder(temporary.path()); }, {"model.safetensors", "found neither"});
}

}  // namespace
}  // namespace draftsmith
