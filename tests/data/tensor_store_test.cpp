#include "data/tensor_store.h"

#include <gtest/gtest.h>

#include "data/safetensors_writer.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace draftsmith {
namespace {

const std::filesystem::path kGolden = std::filesystem::path(DRAFTSMITH_SOURCE_DIR) / "tests/golden";

void write_one(const std::filesystem::path& path, const std::string& name, float value) {
  SafetensorsWriter writer(path, {{name, FileType::f32, {1}}});
  writer.write(name, std::vector<float>{value});
  writer.finish();
}

TEST(TensorStore, ReadsASingleFile) {
  const TensorStore store(kGolden / "target_llama");
  EXPECT_EQ(store.at("model.norm.weight").shape, (std::vector<std::int64_t>{64}));
  EXPECT_EQ(store.names().size(), 39u);
  EXPECT_EQ(store.find("nothing"), nullptr);
  expect_error([&] { store.at("model.norm.wieght"); },
               {"target_llama", "model.norm.wieght", "model.norm.weight"});
}

TEST(TensorStore, ReadsShardsByTheirIndex) {
  const TensorStore store(kGolden / "target_qwen3_wide_head_sharded");
  EXPECT_EQ(store.at("model.layers.3.self_attn.q_proj.weight").shape, (std::vector<std::int64_t>{128, 64}));
  EXPECT_EQ(store.at("lm_head.weight").shape, (std::vector<std::int64_t>{128, 64}));
  EXPECT_EQ(store.names().size(), 47u);
}

TEST(TensorStore, NamesAShardThatNobodyHas) {
  const TemporaryFolder folder;
  folder.write("model.safetensors.index.json",
               R"({"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}})");
  write_one(folder.path() / "1.safetensors", "a", 1);
  expect_error([&] { TensorStore store(folder.path()); },
               {"the shard 2.safetensors", "tensor 'b'", "download"});
}

TEST(TensorStore, NamesATensorThatItsShardLacks) {
  const TemporaryFolder folder;
  folder.write("model.safetensors.index.json",
               R"({"weight_map": {"a": "1.safetensors", "b": "1.safetensors"}})");
  write_one(folder.path() / "1.safetensors", "a", 1);
  expect_error([&] { TensorStore store(folder.path()); }, {"1.safetensors", "tensor 'b'", "found none"});
}

TEST(TensorStore, RefusesAnIndexWithoutMapOrWithPathsOutOfTheFolder) {
  const TemporaryFolder folder;
  const auto expect_index_refused = [&](std::string_view text,
                                        std::initializer_list<std::string_view> parts) {
    folder.write("model.safetensors.index.json", text);
    expect_error([&] { TensorStore store(folder.path()); }, parts);
  };
  expect_index_refused("[]", {"index.json", "\"weight_map\""});
  expect_index_refused("{}", {"index.json", "\"weight_map\""});
  expect_index_refused(R"({"weight_map": {"a": 1}})", {"tensor 'a'", "found 1"});
  expect_index_refused(R"({"weight_map": {"a": "../x.safetensors"}})", {"tensor 'a'", "same folder", "../x"});
  expect_index_refused(R"({"weight_map": {"a": "x", "a": "x"}})", {"\"a\" stands twice"});
}

TEST(TensorStore, NeedsAFolderWithWeights) {
  const TemporaryFolder folder;
  expect_error([&] { TensorStore store(folder.path()); }, {"model.safetensors", "found neither"});
  expect_error([&] { TensorStore store(folder.path() / "none"); }, {"none", "no such folder"});
}

}  // namespace
}  // namespace draftsmith
