#include "data/drafter_config.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "data/file.h"
#include "support/expect_error.h"

namespace draftsmith {
namespace {

const std::filesystem::path kGolden = std::filesystem::path(DRAFTSMITH_SOURCE_DIR) / "tests/golden";

DrafterConfigFile example() {
  return {.decoder = {.hidden_size = 64,
                      .intermediate_size = 96,
                      .num_hidden_layers = 3,
                      .num_attention_heads = 8,
                      .num_key_value_heads = 2,
                      .head_dim = 16,
                      .vocab_size = 128,
                      .max_position_embeddings = 256,
                      .rms_norm_eps = 1e-6,
                      .rope = {.rope_theta = 1e6},
                      .dtype = "bfloat16"},
          .num_target_layers = 8,
          .block_size = 16,
          .mask_token_id = 127,
          .target_layer_ids = {1, 3, 6},
          .layer_types = std::vector<DrafterLayerType>(3, DrafterLayerType::full_attention)};
}

DrafterConfigFile sliding_example(bool is_causal) {
  DrafterConfigFile config = example();
  config.layer_types[1] = DrafterLayerType::sliding_attention;
  config.sliding_window = 32;
  config.is_causal = is_causal;
  return config;
}

// `changes` replace or add members of the written example, also "dflash_config.<key>"; null removes them.
std::string text_with(const DrafterConfigFile& config, std::string_view changes) {
  JsonValue document = parse_json(write_drafter_config(config), "example");
  const JsonValue changed = parse_json(changes, "changes");
  for (const JsonMember& change : *changed.get<JsonObject>()) {
    auto* members = std::get_if<JsonObject>(&document.data);
    std::string key = change.key;
    if (key.starts_with("dflash_config.")) {
      key = key.substr(std::string("dflash_config.").size());
      for (JsonMember& member : *members)
        if (member.key == "dflash_config") members = std::get_if<JsonObject>(&member.value.data);
    }
    std::erase_if(*members, [&](const JsonMember& member) { return member.key == key; });
    members->push_back({key, change.value});
  }
  return write_json(document, JsonLayout::indented);
}

DrafterConfigFile parse(std::string_view changes, const DrafterConfigFile& config = example()) {
  return parse_drafter_config(text_with(config, changes), "config.json");
}

void expect_refused(std::string_view changes, std::initializer_list<std::string_view> parts,
                    const DrafterConfigFile& config = example()) {
  SCOPED_TRACE(changes);
  expect_error([&] { parse(changes, config); }, {"config.json: "});
  expect_error([&] { parse(changes, config); }, parts);
}

TEST(DrafterConfig, WhatIsWrittenIsReadBack) {
  DrafterConfigFile yarn = example(), all_of_yarn = example(), linear = example();
  yarn.attention_bias = true;
  yarn.initializer_range = 0.01;
  yarn.decoder.rope = {
      .rope_type = "yarn", .rope_theta = 500000, .factor = 8, .original_max_position_embeddings = 8192};
  all_of_yarn.decoder.rope = {.rope_type = "yarn",
                              .rope_theta = 500000,
                              .factor = 8,
                              .original_max_position_embeddings = 8192,
                              .beta_fast = 24,
                              .beta_slow = 2,
                              .truncate = false,
                              .attention_factor = 1.5,
                              .mscale = 1,
                              .mscale_all_dim = 0.5};
  linear.decoder.rope = {.rope_type = "linear", .rope_theta = 10000, .factor = 2};
  for (const DrafterConfigFile& config :
       {example(), sliding_example(true), sliding_example(false), yarn, all_of_yarn, linear})
    EXPECT_EQ(parse("{}", config), config);
}

TEST(DrafterConfig, AScalingIsWrittenInBothSpellingsAndThetaAtTheTop) {
  DrafterConfigFile config = example();
  config.decoder.rope = {
      .rope_type = "yarn", .rope_theta = 500000, .factor = 8, .original_max_position_embeddings = 8192};
  const JsonValue document = parse_json(write_drafter_config(config), "config.json");
  EXPECT_THAT(
      write_json(document, JsonLayout::compact),
      testing::HasSubstr(R"("rope_theta":500000.0,"rope_scaling":{"rope_type":"yarn","factor":8.0,)"
                         R"("original_max_position_embeddings":8192,"beta_fast":32.0,"beta_slow":1.0},)"
                         R"("rope_parameters":{"rope_theta":500000.0,"rope_type":"yarn","factor":8.0,)"
                         R"("original_max_position_embeddings":8192,"beta_fast":32.0,"beta_slow":1.0},)"));
}

TEST(DrafterConfig, RefusesLlama3Scaling) {
  const std::string llama3 = R"({"rope_type": "llama3", "rope_theta": 1e6, "factor": 8, "low_freq_factor": 1,
      "high_freq_factor": 4, "original_max_position_embeddings": 8192})";
  expect_refused("{\"rope_scaling\": null, \"rope_parameters\": " + llama3 + "}",
                 {"rope_parameters: expected no scaling, linear or yarn", "llama3 scaling cannot be served"});
  expect_refused("{\"rope_parameters\": null, \"rope_scaling\": " + llama3 + "}",
                 {"rope_scaling: expected no scaling, linear or yarn"});
}

// The keys are those that the loaders' documentation lists, spelled out here once more.
TEST(DrafterConfig, WritesEveryKeyThatLoadersRead) {
  const JsonValue document = parse_json(write_drafter_config(example()), "config.json");
  EXPECT_EQ(
      write_json(document, JsonLayout::compact),
      R"({"architectures":["DFlashDraftModel"],"model_type":"qwen3","hidden_size":64,"intermediate_size":96,)"
      R"("num_hidden_layers":3,"num_attention_heads":8,"num_key_value_heads":2,"head_dim":16,)"
      R"("hidden_act":"silu","rms_norm_eps":1e-06,"vocab_size":128,"max_position_embeddings":256,)"
      R"("rope_theta":1000000.0,"rope_scaling":null,)"
      R"("rope_parameters":{"rope_theta":1000000.0,"rope_type":"default"},)"
      R"("attention_bias":false,"attention_dropout":0.0,"initializer_range":0.02,)"
      R"("tie_word_embeddings":false,"use_cache":true,"num_target_layers":8,"block_size":16,)"
      R"("dflash_config":{"mask_token_id":127,"target_layer_ids":[1,3,6],"block_size":16,"causal":false},)"
      R"("layer_types":["full_attention","full_attention","full_attention"],"sliding_window":null,)"
      R"("use_sliding_window":false,"max_window_layers":3,"is_causal":false,)"
      R"("dtype":"bfloat16","torch_dtype":"bfloat16"})");
  const std::string sliding = write_drafter_config(sliding_example(true));
  for (const char* part : {"\"sliding_attention\"", "\"sliding_window\": 32", "\"use_sliding_window\": true",
                           "\"is_causal\": true", "\"causal\": true"})
    EXPECT_THAT(sliding, testing::HasSubstr(part));
  EXPECT_THAT(sliding, testing::Not(testing::HasSubstr("auto_map")));
}

TEST(DrafterConfig, ReadsAFileThatStatesTheLeast) {
  const DrafterConfigFile config = parse(
      R"({"dflash_config.block_size": null, "dflash_config.causal": null, "is_causal": null, "layer_types": null,
          "use_sliding_window": null, "rope_theta": null, "rope_scaling": null, "torch_dtype": null,
          "attention_bias": null, "initializer_range": null, "auto_map": {"AutoModel": "dflash.DFlashDraftModel"}})");
  EXPECT_EQ(config, example());
  EXPECT_EQ(parse(R"({"rope_parameters": null})"), example());
  EXPECT_EQ(parse(R"({"block_size": null})"), example());
  EXPECT_EQ(parse(R"({"dflash_config.mask_token_id": null, "mask_token_id": 127,
                      "dflash_config.target_layer_ids": null, "target_layer_ids": [1, 3, 6]})"),
            example());
}

TEST(DrafterConfig, ReadsTheGoldenDrafter) {
  const std::filesystem::path path = kGolden / "spec_tiny/drafter/config.json";
  const DrafterConfigFile config = parse_drafter_config(read_text_file(path), path.string());
  EXPECT_EQ(config.block_size, 8);
  EXPECT_EQ(config.mask_token_id, 95);
  EXPECT_THAT(config.target_layer_ids, testing::ElementsAre(1, 2));
  EXPECT_EQ(config.num_target_layers, 4);
  EXPECT_EQ(config.decoder.num_hidden_layers, 2);
  EXPECT_EQ(config.decoder.rope.rope_theta, 10000);
  EXPECT_EQ(config.sliding_window, 0);
}

TEST(DrafterConfig, CausalityOfSlidingLayersFollowsTheLoaders) {
  const auto is_causal = [](std::string_view changes) {
    return parse(changes, sliding_example(true)).is_causal;
  };
  EXPECT_TRUE(is_causal(R"({"is_causal": null, "dflash_config.causal": null})"));
  EXPECT_FALSE(is_causal(R"({"is_causal": null, "dflash_config.causal": false})"));
  EXPECT_FALSE(is_causal(R"({"is_causal": false, "dflash_config.causal": true})"));
  EXPECT_TRUE(is_causal(R"({"is_causal": true, "dflash_config.causal": false})"));
}

TEST(DrafterConfig, AWindowOnEveryLayerIsReadAsSlidingLayers) {
  const DrafterConfigFile config =
      parse(R"({"is_causal": null, "dflash_config.causal": null, "dflash_config.use_swa": true,
                "dflash_config.swa_window_size": 64})");
  EXPECT_THAT(config.layer_types, testing::Each(DrafterLayerType::sliding_attention));
  EXPECT_EQ(config.sliding_window, 64);
  EXPECT_FALSE(config.is_causal);
  expect_refused(R"({"dflash_config.use_swa": true})", {"dflash_config.swa_window_size", "no such key"});
}

TEST(DrafterConfig, RefusesOtherDrafters) {
  expect_refused(R"({"architectures": ["DFlash2DraftModel"]})", {"architectures", "[\"DFlashDraftModel\"]"});
  expect_refused(R"({"architectures": null})", {"architectures", "no such key"});
  expect_refused(R"({"model_type": "qwen3_5_text"})", {"model_type", "\"qwen3\"", "qwen3_5_text"});
  expect_refused(R"({"dflash_config": null})", {"dflash_config", "no such key"});
  expect_refused(R"({"dflash_config.conv_kernel_size": 4})", {"dflash_config.conv_kernel_size", "variant"});
  expect_refused(R"({"dflash_config.projector_type": "gru"})", {"dflash_config.projector_type"});
  expect_refused(R"({"markov_rank": 64})", {"markov_rank", "variant"});
  expect_refused(R"({"target_hidden_size": 128})", {"target_hidden_size", "hidden_size, 64", "found 128"});
  expect_refused(R"({"is_neox_style": false})", {"is_neox_style", "halves"});
  expect_refused(R"({"quantization_config": {}})", {"quantization_config"});
}

TEST(DrafterConfig, RefusesWhatContradictsItself) {
  expect_refused(R"({"block_size": 8})", {"block_size", "16, as in dflash_config", "found 8"});
  expect_refused(R"({"rope_theta": 10000})", {"rope_theta", "as in rope_parameters"});
  expect_refused(R"({"layer_types": ["full_attention"]})", {"layer_types", "one for each of 3 layers"});
  expect_refused(R"({"layer_types": null, "use_sliding_window": true})", {"layer_types", "no such key"});
  expect_refused(R"({"is_causal": true})", {"is_causal", "false without sliding layers"});
  expect_refused(R"({"is_causal": null, "dflash_config.causal": true})", {"dflash_config.causal", "false"});
  expect_refused(R"({"use_sliding_window": false})", {"use_sliding_window", "true"}, sliding_example(true));
  expect_refused(R"({"sliding_window": null})", {"sliding_window", "no such key"}, sliding_example(true));
  expect_refused(R"({"layer_types": ["full_attention", "full_attention", "linear_attention"]})",
                 {"layer_types", "linear_attention"});
}

TEST(DrafterConfig, RefusesIdsOutsideTheirTables) {
  expect_refused(R"({"dflash_config.mask_token_id": 128})", {"dflash_config.mask_token_id", "to 127", "128"});
  expect_refused(R"({"dflash_config.mask_token_id": null})", {"dflash_config.mask_token_id", "no such key"});
  const auto expect_ids_refused = [](const std::string& ids, std::string_view part) {
    expect_refused("{\"dflash_config.target_layer_ids\": " + ids + "}",
                   {"dflash_config.target_layer_ids", part});
  };
  expect_ids_refused("null", "no such key");
  expect_ids_refused("[]", "one or more");
  expect_ids_refused("[1, 7]", "from 0 to 6");  // the last layer's raw output: loaders disagree on it
  expect_ids_refused("[-1, 2]", "from 0 to 6");
  expect_ids_refused("[1, 1]", "strictly increasing");
  expect_ids_refused("[3, 1]", "strictly increasing");
  expect_refused(R"({"num_target_layers": null})", {"num_target_layers", "no such key"});
  expect_refused(R"({"block_size": 1, "dflash_config.block_size": null})",
                 {"block_size", "from 2", "found 1"});
  expect_refused(R"({"block_size": null, "dflash_config.block_size": null})", {"block_size", "no such key"});
}

TEST(DrafterConfigDeathTest, AnImpossibleConfigurationIsNotWritten) {
  DrafterConfigFile config = example();
  config.is_causal = true;
  EXPECT_DEATH(write_drafter_config(config), "belong to sliding layers");
  config = example();
  config.layer_types.pop_back();
  EXPECT_DEATH(write_drafter_config(config), "every layer has a type");
  config = example();
  config.decoder.rope.rope_type = "llama3";
  EXPECT_DEATH(write_drafter_config(config), "not scaled as Llama 3's is");
}

// Whatever bytes change, reading either gives a configuration within its bounds or throws Error.
TEST(DrafterConfig, SurvivesRandomDamage) {
  const std::string whole = write_drafter_config(sliding_example(false));
  const std::string_view alphabet = "0123456789[]{}\":,-.eE \\u\xff";
  int read = 0, refused = 0;
  for (std::uint32_t round = 0; round < 3000; ++round) {
    const Random random(13, RandomStream::noise, round);
    std::string text = whole;
    const std::size_t at = random.below(0, text.size());
    if (random.below(1, 2) == 0) text[at] = alphabet[random.below(2, alphabet.size())];
    if (random.below(3, 2) == 0) text.erase(at, 1 + random.below(4, 4));
    try {
      const DrafterConfigFile config = parse_drafter_config(text, "config.json");
      ASSERT_LT(config.target_layer_ids.back(), config.num_target_layers - 1);
      ++read;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(read, 100);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace draftsmith
