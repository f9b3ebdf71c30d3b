#include "data/hf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "data/file.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace draftsmith {
namespace {

const std::filesystem::path kSource = DRAFTSMITH_SOURCE_DIR;
const std::filesystem::path kGolden = kSource / "tests/golden";

// As transformers 4 writes it; `changes` replace or add members, and null removes them.
std::string config_with(std::string_view changes) {
  JsonValue config = parse_json(R"({
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_act": "silu", "hidden_size": 64,
    "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2,
    "head_dim": 16, "rms_norm_eps": 1e-06, "vocab_size": 128, "max_position_embeddings": 256,
    "tie_word_embeddings": true, "attention_bias": false, "rope_theta": 1000000, "rope_scaling": null,
    "torch_dtype": "bfloat16", "eos_token_id": 7, "use_sliding_window": false, "sliding_window": null,
    "max_window_layers": 28})",
                                "base");
  const JsonValue changed = parse_json(changes, "changes");
  auto& members = std::get<JsonObject>(config.data);
  for (const JsonMember& change : *changed.get<JsonObject>()) {
    std::erase_if(members, [&](const JsonMember& member) { return member.key == change.key; });
    members.push_back(change);
  }
  return write_json(config, JsonLayout::indented);
}

TargetConfigFile parse(std::string_view changes) {
  return parse_target_config(config_with(changes), "config.json");
}

void expect_refused(std::string_view changes, std::initializer_list<std::string_view> parts) {
  SCOPED_TRACE(changes);
  expect_error([&] { parse(changes); }, {"config.json: "});
  expect_error([&] { parse(changes); }, parts);
}

TEST(HfConfig, ReadsTransformers4) {
  const TargetConfigFile config = parse("{}");
  EXPECT_EQ(config.model_type, "qwen3");
  EXPECT_THAT(config.architectures, testing::ElementsAre("Qwen3ForCausalLM"));
  const DecoderConfig& decoder = config.decoder;
  EXPECT_EQ(decoder.hidden_size, 64);
  EXPECT_EQ(decoder.intermediate_size, 96);
  EXPECT_EQ(decoder.num_hidden_layers, 4);
  EXPECT_EQ(decoder.num_attention_heads, 8);
  EXPECT_EQ(decoder.num_key_value_heads, 2);
  EXPECT_EQ(decoder.head_dim, 16);
  EXPECT_EQ(decoder.vocab_size, 128);
  EXPECT_EQ(decoder.max_position_embeddings, 256);
  EXPECT_EQ(decoder.rms_norm_eps, 1e-6);
  EXPECT_EQ(decoder.rope, (RopeConfig{.rope_type = "default", .rope_theta = 1e6}));
  EXPECT_EQ(decoder.dtype, "bfloat16");
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_TRUE(config.head_norm);
  EXPECT_FALSE(config.qkv_bias);
  EXPECT_THAT(config.eos_token_ids, testing::ElementsAre(7));
  EXPECT_EQ(config.bos_token_id, std::nullopt);
}

TEST(HfConfig, Transformers5SaysTheSame) {
  const DecoderConfig decoder = parse(R"({"rope_theta": null, "rope_scaling": null, "torch_dtype": null,
      "dtype": "bfloat16", "rope_parameters": {"rope_theta": 1e6, "rope_type": "default"}})")
                                    .decoder;
  EXPECT_EQ(decoder, parse("{}").decoder);
}

TEST(HfConfig, ReadsLlama3ScalingInEverySpelling) {
  const std::string numbers =
      R"("factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64})";
  const RopeConfig expected{.rope_type = "llama3",
                            .rope_theta = 1e6,
                            .factor = 8,
                            .low_freq_factor = 1,
                            .high_freq_factor = 4,
                            .original_max_position_embeddings = 64};
  EXPECT_EQ(parse(R"({"rope_scaling": {"rope_type": "llama3", )" + numbers + "}").decoder.rope, expected);
  EXPECT_EQ(parse(R"({"rope_scaling": {"type": "llama3", )" + numbers + "}").decoder.rope, expected);
  const std::string nested = R"("rope_parameters": {"rope_theta": 1e6, "rope_type": "llama3", )" + numbers;
  EXPECT_EQ(parse(R"({"rope_theta": null, )" + nested + "}").decoder.rope, expected);
  EXPECT_EQ(
      parse("{" + nested + R"(, "rope_scaling": {"rope_type": "llama3", )" + numbers + "}").decoder.rope,
      expected);
}

TEST(HfConfig, ReadsLinearScaling) {
  const RopeConfig expected{.rope_type = "linear", .rope_theta = 1e6, .factor = 2.5};
  EXPECT_EQ(parse(R"({"rope_scaling": {"type": "linear", "factor": 2.5}})").decoder.rope, expected);
  EXPECT_EQ(parse(R"({"rope_theta": null,
      "rope_parameters": {"rope_theta": 1e6, "rope_type": "linear", "factor": 2.5}})")
                .decoder.rope,
            expected);
  expect_refused(R"({"rope_scaling": {"type": "linear"}})", {"rope_scaling.factor", "no such key"});
  expect_refused(R"({"rope_scaling": {"type": "linear", "factor": 0}})", {"rope_scaling.factor", "from 1"});
}

TEST(HfConfig, ReadsYarnScalingWithItsDefaults) {
  const std::string least = R"("factor": 4.0, "original_max_position_embeddings": 64)";
  const RopeConfig expected{
      .rope_type = "yarn", .rope_theta = 1e6, .factor = 4, .original_max_position_embeddings = 64};
  EXPECT_EQ(parse(R"({"rope_scaling": {"type": "yarn", )" + least + "}}").decoder.rope, expected);
  EXPECT_EQ(
      parse(R"({"rope_scaling": {"rope_type": "yarn", "beta_fast": null, "mscale": null, )" + least + "}}")
          .decoder.rope,
      expected);
  EXPECT_EQ(parse(R"({"rope_theta": null, "rope_parameters": {"rope_theta": 1e6, "rope_type": "yarn", )" +
                  least + "}}")
                .decoder.rope,
            expected);
  RopeConfig all = expected;
  all.beta_fast = 24;
  all.beta_slow = 2;
  all.truncate = false;
  all.attention_factor = 1.25;
  all.mscale = 1;
  all.mscale_all_dim = 0.5;
  EXPECT_EQ(parse(R"({"rope_scaling": {"type": "yarn", "beta_fast": 24, "beta_slow": 2.0, "truncate": false,
                      "attention_factor": 1.25, "mscale": 1.0, "mscale_all_dim": 0.5, )" +
                  least + "}}")
                .decoder.rope,
            all);
}

TEST(HfConfig, RefusesYarnThatDoesNotSayWhatItStretches) {
  expect_refused(R"({"rope_scaling": {"type": "yarn", "factor": 4.0}})",
                 {"rope_scaling.original_max_position_embeddings", "no such key"});
  expect_refused(R"({"rope_scaling": {"type": "yarn", "original_max_position_embeddings": 64}})",
                 {"rope_scaling.factor", "no such key"});
  expect_refused(
      R"({"rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 64, "beta_fast": 1}})",
      {"rope_scaling.beta_fast", "more than beta_slow, 1"});
}

TEST(HfConfig, RefusesYarnOverABaseThatTellsNoPairsApart) {
  const std::string yarn = R"("rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 64})";
  expect_refused(R"({"rope_theta": 1, "rope_scaling": {)" + yarn + "}",
                 {"config.json: rope_theta", "more than 1 with yarn", "found 1"});
  expect_refused(R"({"rope_theta": null, "rope_parameters": {"rope_theta": 1, )" + yarn + "}",
                 {"rope_parameters.rope_theta", "more than 1 with yarn"});
}

TEST(HfConfig, RefusesRopeThatIsUnknownOrContradictsItself) {
  expect_refused(
      R"({"rope_scaling": {"type": "longrope", "factor": 4.0}})",
      {"rope_scaling.type", "\"default\", \"linear\", \"llama3\" or \"yarn\"", "found \"longrope\""});
  expect_refused(R"({"rope_parameters": {"rope_theta": 1e6, "rope_type": "dynamic", "factor": 2.0}})",
                 {"rope_parameters.rope_type", "found \"dynamic\""});
  expect_refused(R"({"rope_theta": null})", {"rope_theta", "found no such key", "trained with"});
  expect_refused(R"({"rope_theta": 0})", {"rope_theta", "found 0"});
  expect_refused(R"({"rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}})",
                 {"rope_theta", "10000, as in rope_parameters", "found 1000000", "agree"});
  expect_refused(
      R"({"rope_scaling": {"type": "default"}, "rope_parameters": {"rope_type": "llama3", "factor": 8,
      "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 64}})",
      {"rope_scaling", "the same as in rope_parameters"});
  expect_refused(R"({"partial_rotary_factor": 0.25})", {"partial_rotary_factor", "expected 1, found 0.25"});
  expect_refused(R"({"rope_parameters": {"rope_theta": 1e6, "partial_rotary_factor": 0.5}})",
                 {"rope_parameters.partial_rotary_factor"});
  expect_refused(R"({"rope_scaling": {"type": "default", "mrope_section": [1]}})",
                 {"rope_scaling.mrope_section"});
  expect_refused(R"({"rope_scaling": {"type": "llama3", "factor": 8}})",
                 {"rope_scaling.low_freq_factor", "no such key"});
  expect_refused(
      R"({"rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 4,
      "original_max_position_embeddings": 64}})",
      {"rope_scaling.high_freq_factor", "more than low_freq_factor"});
}

TEST(HfConfig, FillsInWhatFilesLeaveOut) {
  const TargetConfigFile config = parse(
      R"({"num_key_value_heads": null, "head_dim": null, "tie_word_embeddings": null, "hidden_act": null,
          "architectures": null, "torch_dtype": null, "eos_token_id": [3, 4], "bos_token_id": 0, "pad_token_id": -1})");
  EXPECT_EQ(config.decoder.num_key_value_heads, 8);
  EXPECT_EQ(config.decoder.head_dim, 8);
  EXPECT_FALSE(config.tie_word_embeddings);
  EXPECT_EQ(config.decoder.dtype, "");
  EXPECT_THAT(config.eos_token_ids, testing::ElementsAre(3, 4));
  EXPECT_EQ(config.bos_token_id, 0);
  EXPECT_EQ(config.pad_token_id, std::nullopt);
}

TEST(HfConfig, KnowsTheBiasesOfEveryFamily) {
  const auto biases = [](std::string_view changes) {
    const TargetConfigFile config = parse(changes);
    return std::tuple(config.qkv_bias, config.output_bias, config.head_norm);
  };
  EXPECT_EQ(biases(R"({"model_type": "qwen2", "attention_bias": null})"), std::tuple(true, false, false));
  EXPECT_EQ(biases(R"({"model_type": "llama", "attention_bias": null})"), std::tuple(false, false, false));
  EXPECT_EQ(biases(R"({"model_type": "llama", "attention_bias": true})"), std::tuple(true, true, false));
  EXPECT_EQ(biases(R"({"model_type": "qwen3", "attention_bias": true})"), std::tuple(true, true, true));
}

TEST(HfConfig, RefusesOtherFamiliesByNamingTheOnesThatAre) {
  for (const std::string other : {"mistral", "mixtral", "qwen3_5", "gemma3_text"})
    expect_refused(R"({"model_type": ")" + other + "\"}",
                   {"model_type", "\"qwen3\", \"qwen3_moe\", \"qwen2\" or \"llama\"", other});
  expect_refused(R"({"model_type": null})", {"model_type", "no such key"});
}

constexpr std::string_view kMoe =
    R"("model_type": "qwen3_moe", "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 48,
       "norm_topk_prob": true)";

// A mixture's keys, of which `changes` replace or add some.
std::string moe_with(const std::string& changes) {
  JsonObject members = *parse_json("{" + std::string(kMoe) + "}", "base").get<JsonObject>();
  const JsonValue changed = parse_json(changes, "changes");
  for (const JsonMember& change : *changed.get<JsonObject>()) {
    std::erase_if(members, [&](const JsonMember& member) { return member.key == change.key; });
    members.push_back(change);
  }
  return write_json({members}, JsonLayout::compact);
}

TEST(HfConfig, ReadsMixturesOfExperts) {
  const TargetConfigFile config = parse(moe_with("{}"));
  EXPECT_TRUE(config.head_norm);
  EXPECT_EQ(config.experts.num_experts, 8);
  EXPECT_EQ(config.experts.num_experts_per_tok, 2);
  EXPECT_EQ(config.experts.moe_intermediate_size, 48);
  EXPECT_TRUE(config.experts.norm_topk_prob);
  EXPECT_THAT(config.experts.sparse_layers, testing::ElementsAre(true, true, true, true));
  EXPECT_EQ(parse(moe_with(R"({"num_experts": null, "num_local_experts": 8})")).experts.num_experts, 8);
  EXPECT_EQ(parse("{}").experts.num_experts, 0);
  EXPECT_TRUE(parse("{}").experts.sparse_layers.empty());
}

TEST(HfConfig, KnowsWhichLayersAreDense) {
  const auto sparse = [](const std::string& changes) {
    return parse(moe_with(changes)).experts.sparse_layers;
  };
  EXPECT_THAT(sparse(R"({"decoder_sparse_step": 2})"), testing::ElementsAre(false, true, false, true));
  EXPECT_THAT(sparse(R"({"mlp_only_layers": [0, 2]})"), testing::ElementsAre(false, true, false, true));
  EXPECT_THAT(sparse(R"({"mlp_only_layers": [3], "decoder_sparse_step": 2})"),
              testing::ElementsAre(false, true, false, false));
}

TEST(HfConfig, RefusesExpertsThatCannotBe) {
  expect_refused(moe_with(R"({"num_experts": null})"), {"num_experts", "no such key"});
  expect_refused(moe_with(R"({"num_local_experts": 4})"), {"num_experts: expected 4, as num_local_experts"});
  expect_refused(moe_with(R"({"num_experts_per_tok": 9})"),
                 {"num_experts_per_tok", "from 1 to 8", "found 9"});
  expect_refused(moe_with(R"({"moe_intermediate_size": null})"), {"moe_intermediate_size", "no such key"});
  expect_refused(moe_with(R"({"norm_topk_prob": null})"),
                 {"norm_topk_prob", "true or false", "trained with"});
  expect_refused(moe_with(R"({"decoder_sparse_step": 0})"), {"decoder_sparse_step", "from 1"});
  expect_refused(moe_with(R"({"mlp_only_layers": [4]})"), {"mlp_only_layers", "from 0 to 3"});
}

TEST(HfConfig, RefusesFeaturesThatTheForwardDoesNotCompute) {
  expect_refused(R"({"hidden_act": "gelu"})", {"hidden_act", "\"silu\"", "found \"gelu\""});
  expect_refused(R"({"mlp_bias": true})", {"mlp_bias", "expected false, found true"});
  expect_refused(
      R"({"layer_types": ["full_attention", "full_attention", "full_attention", "sliding_attention"]})",
      {"layer_types", "only \"full_attention\""});
  expect_refused(R"({"layer_types": ["full_attention"]})", {"layer_types", "one for each of 4 layers"});
  expect_refused(R"({"use_sliding_window": true, "sliding_window": 32, "max_window_layers": 3})",
                 {"use_sliding_window", "expected false"});
  // Switched on, but from a layer on that is not there.
  EXPECT_NO_THROW(parse(R"({"use_sliding_window": true, "sliding_window": 32, "max_window_layers": 4})"));
  EXPECT_NO_THROW(parse(R"({"use_sliding_window": false, "sliding_window": 32, "max_window_layers": 3})"));
}

TEST(HfConfig, RefusesSizesThatCannotBe) {
  for (const std::string key :
       {"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
        "head_dim", "vocab_size", "max_position_embeddings"}) {
    expect_refused("{\"" + key + "\": 0}", {key + ": expected a whole number from", "found 0"});
    expect_refused("{\"" + key + "\": 4611686018427387904}", {key + ": expected a whole number from"});
    expect_refused("{\"" + key + "\": \"64\"}", {key + ": expected a whole number from", "found \"64\""});
  }
  expect_refused(R"({"hidden_size": null})", {"hidden_size", "no such key"});
  expect_refused(R"({"num_key_value_heads": 3})",
                 {"num_key_value_heads", "a divisor of num_attention_heads, 8"});
  expect_refused(R"({"head_dim": 15})", {"head_dim", "even"});
  expect_refused(R"({"head_dim": null, "hidden_size": 60})",
                 {"head_dim", "8 heads do not divide hidden_size 60"});
  expect_refused(R"({"rms_norm_eps": -1})", {"rms_norm_eps", "found -1"});
  expect_refused(R"({"eos_token_id": 128})", {"eos_token_id", "from 0 to 127", "found 128"});
  expect_refused(R"({"eos_token_id": [1, -2]})", {"eos_token_id", "found [1,-2]"});
}

TEST(HfConfig, ReadsTheGoldenTargets) {
  for (const char* name :
       {"target_qwen3", "target_qwen2_tied", "target_llama", "target_llama3_rope", "target_llama_linear_rope",
        "target_qwen3_yarn", "target_qwen3_wide_head_sharded", "spec_tiny/target"}) {
    SCOPED_TRACE(name);
    const TargetConfigFile config = read_target_config(kGolden / name);
    EXPECT_EQ(config.decoder.hidden_size, 64);
    EXPECT_EQ(config.decoder.num_hidden_layers, 4);
    EXPECT_EQ(config.decoder.num_key_value_heads, 2);
    EXPECT_EQ(config.decoder.dtype, "float32");
  }
  EXPECT_EQ(read_target_config(kGolden / "target_qwen3_wide_head_sharded").decoder.head_dim, 32);
  EXPECT_TRUE(read_target_config(kGolden / "target_qwen2_tied").tie_word_embeddings);
  EXPECT_TRUE(read_target_config(kGolden / "target_qwen2_tied").qkv_bias);
  EXPECT_EQ(read_target_config(kGolden / "target_llama3_rope").decoder.rope.factor, 8);
  EXPECT_THAT(read_target_config(kSource / "examples/demo/target").eos_token_ids, testing::ElementsAre(4094));
}

TEST(HfConfig, ReadsGenerationConfigs) {
  EXPECT_THAT(read_generation_config(kGolden / "target_llama").eos_token_ids, testing::ElementsAre(2));
  EXPECT_THAT(parse_generation_config(R"({"eos_token_id": [1, 2]})", "g").eos_token_ids,
              testing::ElementsAre(1, 2));
  EXPECT_TRUE(parse_generation_config(R"({"eos_token_id": null})", "g").eos_token_ids.empty());
  expect_error([] { parse_generation_config(R"({"eos_token_id": "x"})", "g"); },
               {"g: eos_token_id", "\"x\""});
  const TemporaryFolder folder;
  EXPECT_TRUE(read_generation_config(folder.path()).eos_token_ids.empty());
  expect_error([&] { read_target_config(folder.path()); }, {"config.json", "No such file"});
}

// Whatever bytes change, reading either gives a configuration within its bounds or throws Error.
TEST(HfConfig, SurvivesRandomDamage) {
  const std::string whole = config_with("{}");
  const std::string_view alphabet = "0123456789[]{}\":,-.eE \\u\xff";
  int read = 0, refused = 0;
  for (std::uint32_t round = 0; round < 3000; ++round) {
    const Random random(12, RandomStream::noise, round);
    std::string text = whole;
    const std::size_t at = random.below(0, text.size());
    const char letter = alphabet[random.below(1, alphabet.size())];
    switch (random.below(2, 3)) {
      case 0:
        text[at] = letter;
        break;
      case 1:
        text.insert(at, 1, letter);
        break;
      default:
        text.erase(at, 1 + random.below(3, 4));
    }
    try {
      const TargetConfigFile config = parse_target_config(text, "config.json");
      ASSERT_GT(config.decoder.head_dim, 0);
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
