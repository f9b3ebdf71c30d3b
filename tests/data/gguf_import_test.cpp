#include "data/gguf_import.h"

#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/gguf_tokenizer.h"
#include "data/snapshot.h"
#include "data/tensor_store.h"
#include "data/tokenizer.h"
#include "support/tiny_gguf.h"
#include "text_fixtures.h"

namespace draftsmith {
namespace {

using nlohmann::json;

class GgufImportTest : public testing::Test {
 protected:
  ImportedModel import(const GgufBuilder& builder, ImportType type = ImportType::lossless) const {
    const auto source = temporary.write("model.gguf", builder.build());
    return import_gguf(
        {.source = source, .folder = folder, .type = type, .existing = ExistingImport::replace});
  }

  void expect_refused(const GgufBuilder& builder, std::initializer_list<std::string_view> parts) const {
    expect_error([&] { import(builder); }, parts);
    EXPECT_FALSE(std::filesystem::exists(folder)) << "a refused import leaves nothing";
  }

  std::vector<float> read(const std::string& name) const {
    const TensorStore store(folder);
    std::vector<float> values(static_cast<std::size_t>(store.at(name).elements()));
    read_as(store.at(name), std::span<float>(values));
    return values;
  }

  const TemporaryFolder temporary;
  const std::filesystem::path folder = temporary.path() / "imported";
};

TEST_F(GgufImportTest, OneThatIsEndedOnTheWayLeavesNothing) {
  const auto source = temporary.write("model.gguf", TinyGguf("smollm", "smollm").builder.build());
  int tensors = 0;
  expect_error(
      [&] {
        import_gguf({.source = source, .folder = folder, .before_tensor = [&] {
                       if (++tensors == 5) throw Error("enough");
                     }});
      },
      {"enough"});
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(temporary.path()), {}), 1) << "only the source";
}

TEST_F(GgufImportTest, WeightsAreTheFilesInHuggingFaceOrder) {
  const TinyGguf tiny("smollm", "smollm");
  EXPECT_EQ(import(tiny.builder).tensors, 21);
  const TensorStore store(folder);
  EXPECT_EQ(store.names().size(), tiny.weights.size());
  const std::map<std::string, std::string> names{
      {"token_embd", "model.embed_tokens"},
      {"blk.0.attn_norm", "model.layers.0.input_layernorm"},
      {"blk.0.attn_q", "model.layers.0.self_attn.q_proj"},  // these two in another order of rows
      {"blk.1.attn_k", "model.layers.1.self_attn.k_proj"},
      {"blk.1.attn_v", "model.layers.1.self_attn.v_proj"},
      {"blk.0.attn_output", "model.layers.0.self_attn.o_proj"},
      {"blk.1.ffn_norm", "model.layers.1.post_attention_layernorm"},
      {"blk.0.ffn_gate", "model.layers.0.mlp.gate_proj"},
      {"blk.0.ffn_up", "model.layers.0.mlp.up_proj"},
      {"blk.1.ffn_down", "model.layers.1.mlp.down_proj"},
      {"output_norm", "model.norm"},
      {"output", "lm_head"}};
  for (const auto& [gguf_name, name] : names)
    EXPECT_EQ(read(name + ".weight"), tiny.weights.at(gguf_name + ".weight")) << name;
  EXPECT_EQ(store.at("model.layers.0.self_attn.k_proj.weight").shape,
            (std::vector<std::int64_t>{TinyGguf::kHeadDim, TinyGguf::kWidth}));
}

TEST_F(GgufImportTest, TheConfigurationIsATargets) {
  TinyGguf tiny("smollm", "smollm");
  import(tiny.builder);
  const TargetConfigFile config = read_target_config(folder);
  EXPECT_EQ(config.model_type, "llama");
  EXPECT_THAT(config.architectures, testing::ElementsAre("LlamaForCausalLM"));
  EXPECT_FALSE(config.tie_word_embeddings);
  EXPECT_FALSE(config.qkv_bias);
  EXPECT_EQ(config.decoder.hidden_size, TinyGguf::kWidth);
  EXPECT_EQ(config.decoder.intermediate_size, TinyGguf::kMiddle);
  EXPECT_EQ(config.decoder.num_hidden_layers, TinyGguf::kLayers);
  EXPECT_EQ(config.decoder.num_attention_heads, TinyGguf::kHeads);
  EXPECT_EQ(config.decoder.num_key_value_heads, TinyGguf::kKvHeads);
  EXPECT_EQ(config.decoder.head_dim, TinyGguf::kHeadDim);
  EXPECT_EQ(config.decoder.vocab_size, tiny.vocabulary);
  EXPECT_EQ(config.decoder.max_position_embeddings, 256);
  EXPECT_EQ(config.decoder.rms_norm_eps, 1e-5);
  EXPECT_EQ(config.decoder.rope.rope_theta, 100000);
  EXPECT_EQ(config.decoder.rope.rope_type, kDefaultRope);
  EXPECT_EQ(config.decoder.dtype, "float32");
  EXPECT_THAT(config.eos_token_ids, testing::ElementsAre(2));
  EXPECT_EQ(config.bos_token_id, 0);
  EXPECT_EQ(config.pad_token_id, 2);
  EXPECT_THAT(read_generation_config(folder).eos_token_ids, testing::ElementsAre(2));
  verify_snapshot(folder);
}

TEST_F(GgufImportTest, AFileWithoutAHeadTiesItToTheEmbedding) {
  TinyGguf tiny("smollm", "smollm");
  tiny.builder.tensors.pop_back();
  import(tiny.builder);
  EXPECT_TRUE(read_target_config(folder).tie_word_embeddings);
  EXPECT_EQ(TensorStore(folder).find("lm_head.weight"), nullptr);
}

TEST_F(GgufImportTest, AnEndOfTurnTokenStopsGenerationToo) {
  TinyGguf tiny("smollm", "smollm");
  tiny.builder.u32("tokenizer.ggml.eot_token_id", 1);
  import(tiny.builder);
  EXPECT_THAT(read_generation_config(folder).eos_token_ids, testing::ElementsAre(2, 1));
}

// Lossless: the type follows from the values; the others are for all tensors.
TEST_F(GgufImportTest, TypesOfWeights) {
  TinyGguf tiny("smollm", "smollm");
  GgufBuilder::Tensor& values = tiny.builder.tensor("blk.0.attn_v.weight");
  const std::vector<float>& kept = tiny.weights.at("blk.0.attn_v.weight");
  values.type = 30;  // BF16
  values.bytes.clear();
  std::vector<float> rounded;
  for (const float value : kept) {
    values.bytes += little_endian(bf16(value).bits);
    rounded.push_back(bf16(value));
  }
  const std::string name = "model.layers.0.self_attn.v_proj.weight";
  import(tiny.builder);
  EXPECT_EQ(TensorStore(folder).at(name).type, FileType::bf16);
  EXPECT_EQ(TensorStore(folder).at("lm_head.weight").type, FileType::f32);
  EXPECT_EQ(read(name), rounded);
  import(tiny.builder, ImportType::f32);
  EXPECT_EQ(TensorStore(folder).at(name).type, FileType::f32);
  EXPECT_EQ(read(name), rounded);
  import(tiny.builder, ImportType::bf16);
  EXPECT_EQ(TensorStore(folder).at("lm_head.weight").type, FileType::bf16);
  EXPECT_EQ(read_target_config(folder).decoder.dtype, "bfloat16");
}

TEST_F(GgufImportTest, QuantisedRowsAreUnpackedBeforeTheyAreReordered) {
  TinyGguf tiny("smollm", "smollm");
  GgufBuilder::Tensor& queries = tiny.builder.tensor("blk.0.attn_q.weight");
  queries.type = 8;  // Q8_0: one block a row, row r of the file holding r
  queries.bytes.clear();
  for (std::int64_t row = 0; row < TinyGguf::kWidth; ++row)
    queries.bytes += little_endian<std::uint16_t>(0x3c00) + std::string(32, static_cast<char>(row));
  import(tiny.builder);
  const std::vector<float> values = read("model.layers.0.self_attn.q_proj.weight");
  std::vector<float> rows;
  for (std::size_t i = 0; i < values.size(); i += TinyGguf::kWidth) rows.push_back(values[i]);
  EXPECT_EQ(rows, (std::vector<float>{0,  2,  4,  6,  8,  10, 12, 14, 1,  3,  5,  7,  9,  11, 13, 15,
                                      16, 18, 20, 22, 24, 26, 28, 30, 17, 19, 21, 23, 25, 27, 29, 31}));
}

// Every text gives the ids that the reference library gives with the tokenizer that the file was made of.
TEST_F(GgufImportTest, TheTokenizerIsTheOneThatTheFileWasMadeOf) {
  const json cases = read_json(kSourceFolder / "tests/golden/tokenizer/cases.json");
  for (const auto& [kind, golden] :
       std::map<std::string, std::string>{{"smollm", "smollm"}, {"llama-bpe", "llama3"}}) {
    SCOPED_TRACE(kind);
    const TinyGguf tiny(kind, golden);
    EXPECT_EQ(import(tiny.builder).tokens, tiny.vocabulary);
    const Tokenizer tokenizer = Tokenizer::load(folder);
    EXPECT_EQ(tokenizer.size(), tiny.vocabulary - 2);
    for (const json& each : cases.at(golden))
      EXPECT_EQ(tokenizer.encode(each["text"].get<std::string>()),
                each["ids"].get<std::vector<std::int32_t>>())
          << each["text"];
    const json original = read_json(kSourceFolder / "tests/golden/tokenizer" / golden / "tokenizer.json");
    const json written = read_json(folder / "tokenizer.json");
    EXPECT_EQ(written["added_tokens"], original["added_tokens"]);
    EXPECT_EQ(written["model"]["merges"], original["model"]["merges"]);
    EXPECT_EQ(written["model"]["ignore_merges"], original["model"]["ignore_merges"]);
    EXPECT_EQ(written["pre_tokenizer"]["pretokenizers"][0], original["pre_tokenizer"]["pretokenizers"][0]);
  }
}

TEST_F(GgufImportTest, RolesAndTheChatTemplateComeAlong) {
  TinyGguf tiny("smollm", "smollm");
  tiny.builder.text("tokenizer.chat_template", "{{ messages }}");
  EXPECT_TRUE(import(tiny.builder).has_chat_template);
  const json config = read_json(folder / "tokenizer_config.json");
  EXPECT_EQ(config["bos_token"], "<|endoftext|>");
  EXPECT_EQ(config["eos_token"], "<|im_end|>");
  EXPECT_EQ(config["pad_token"], "<|im_end|>");
  EXPECT_FALSE(config.contains("mask_token"));
  EXPECT_EQ(config["chat_template"], "{{ messages }}");
}

TEST_F(GgufImportTest, ALlama3TokenizerAddsItsBos) {
  TinyGguf tiny("llama-bpe", "llama3");
  import(tiny.builder);
  const json processor = read_json(folder / "tokenizer.json")["post_processor"];
  EXPECT_EQ(processor["single"][0]["SpecialToken"]["id"], "<|begin_of_text|>");
  tiny.builder.boolean("tokenizer.ggml.add_bos_token", false);
  import(tiny.builder);
  EXPECT_TRUE(read_json(folder / "tokenizer.json")["post_processor"].is_null());
}

TEST_F(GgufImportTest, ReadsTheRopeScalingsOfLlama) {
  TinyGguf tiny("smollm", "smollm");
  tiny.builder.f32("llama.rope.scaling.factor", 4);
  import(tiny.builder);
  EXPECT_EQ(read_target_config(folder).decoder.rope.rope_type, kLinearRope);
  EXPECT_EQ(read_target_config(folder).decoder.rope.factor, 4);
  tiny.builder.remove("llama.rope.scaling.factor");

  // Pairs of wavelength 2 pi 500000^(i/8) below 8192/4 keep their frequency, those above 8192 lose a factor
  // of 32; only pair 4 lies between them, a third of the way by 8192 / 4443 = 1.844 turns: (1.844 - 1) / 3.
  tiny.builder.remove("llama.rope.freq_base");
  tiny.builder.f32("llama.rope.freq_base", 500000);
  const double smooth = (8192 / (2 * M_PI * std::pow(500000.0, 0.5)) - 1) / 3;
  const auto between = static_cast<float>(1 / ((1 - smooth) / 32 + smooth));
  std::string factors;
  for (const float factor : {1.f, 1.f, 1.f, 1.f, between, 32.f, 32.f, 32.f}) factors += little_endian(factor);
  tiny.builder.tensors.push_back({"rope_freqs.weight", {8}, 0, factors});
  import(tiny.builder);
  const RopeConfig rope = read_target_config(folder).decoder.rope;
  EXPECT_EQ(rope.rope_type, kLlama3Rope);
  EXPECT_EQ(rope.factor, 32);
  EXPECT_EQ(rope.low_freq_factor, 1);
  EXPECT_EQ(rope.high_freq_factor, 4);
  EXPECT_EQ(rope.original_max_position_embeddings, 8192);

  std::filesystem::remove_all(folder);
  tiny.builder.tensors.back().bytes.replace(0, 4, little_endian(1.01f));
  expect_refused(tiny.builder, {"'rope_freqs.weight'", "1 for pair 0, found 1.01"});
  tiny.builder.tensors.back() = {"rope_freqs.weight", {4}, 0, std::string(16, '\0')};
  expect_refused(tiny.builder, {"'rope_freqs.weight'", "shape [8], found [4]"});
}

TEST_F(GgufImportTest, RefusesModelsThatAreNoDenseLlama) {
  const auto expect = [&](auto change, std::initializer_list<std::string_view> parts) {
    TinyGguf tiny("smollm", "smollm");
    change(tiny.builder);
    expect_refused(tiny.builder, parts);
  };
  using Builder = GgufBuilder;
  const auto replaced = [](std::string key, std::uint32_t value) {
    return [=](Builder& builder) {
      builder.remove(key);
      builder.u32(key, value);
    };
  };
  expect(
      [](Builder& builder) {
        builder.remove("general.architecture");
        builder.text("general.architecture", "gemma");
      },
      {"model.gguf", "\"llama\" for \"general.architecture\"", "found \"gemma\""});
  expect(replaced("llama.expert_count", 8), {"\"llama.expert_count\"", "found 8", "experts"});
  expect(replaced("llama.attention.sliding_window", 4096), {"\"llama.attention.sliding_window\""});
  expect(replaced("llama.rope.dimension_count", 8), {"\"llama.rope.dimension_count\"", "16", "found 8"});
  expect(replaced("llama.vocab_size", 7), {"\"llama.vocab_size\"", "token_embd.weight", "found 7"});
  expect(replaced("llama.block_count", 3),
         {"expected the 30 tensors", "blk.2.attn_norm.weight", "and 4 more"});
  expect(replaced("llama.block_count", 0), {"\"llama.block_count\", found 0"});
  expect(replaced("llama.feed_forward_length", 96),
         {"'blk.0.ffn_gate.weight'", "[96, 32]", "found [64, 32]"});
  expect(replaced("llama.attention.head_count_kv", 2), {"'blk.0.attn_k.weight'", "[32, 32]"});
  expect(replaced("tokenizer.ggml.eos_token_id", 9999), {"\"tokenizer.ggml.eos_token_id\", found 9999"});
  expect([](Builder& builder) { builder.boolean("llama.attention.causal", false); }, {"found false"});
  expect([](Builder& builder) { builder.text("llama.rope.scaling.type", "yarn"); },
         {"\"llama.rope.scaling.type\", found \"yarn\""});
  expect([](Builder& builder) { builder.remove("llama.context_length"); },
         {"\"llama.context_length\", found no such key"});
  expect([](Builder& builder) { builder.tensors.erase(builder.tensors.begin()); },
         {"'token_embd.weight'", "no such tensor"});
  expect(
      [](Builder& builder) {
        builder.tensors.push_back({"blk.0.attn_q.bias", {32}, 0, std::string(128, '\0')});
      },
      {"unknown: blk.0.attn_q.bias", "biases"});
  expect(
      [](Builder& builder) {
        builder.tensor("output_norm.weight").bytes.replace(8, 4, little_endian(std::nanf("")));
      },
      {"'output_norm.weight'", "finite values, found nan in row 0"});
}

TEST_F(GgufImportTest, RefusesTokenizersThatItCannotWrite) {
  const auto expect = [&](const char* key, auto add, std::initializer_list<std::string_view> parts) {
    TinyGguf tiny("smollm", "smollm");
    tiny.builder.remove(key);
    add(tiny.builder);
    expect_refused(tiny.builder, parts);
  };
  using Builder = GgufBuilder;
  const auto nothing = [](Builder&) {};
  expect("tokenizer.ggml.model", [](Builder& builder) { builder.text("tokenizer.ggml.model", "llama"); },
         {"\"tokenizer.ggml.model\", found \"llama\"", "byte-level BPE"});
  expect("tokenizer.ggml.pre", [](Builder& builder) { builder.text("tokenizer.ggml.pre", "viking"); },
         {"\"tokenizer.ggml.pre\", found \"viking\"", "smollm, gpt-2, gpt2, llama-bpe"});
  expect("tokenizer.ggml.pre", nothing, {"\"tokenizer.ggml.pre\", found no such key"});
  expect("tokenizer.ggml.tokens", nothing, {"\"tokenizer.ggml.tokens\", found no such key"});
  expect(
      "tokenizer.ggml.tokens",
      [](Builder& builder) { builder.texts("tokenizer.ggml.tokens", std::vector<std::string>(1000, "x")); },
      {"the rows of the embedding table", "found a list of 1000"});
  expect("tokenizer.ggml.token_type",
         [](Builder& builder) {
           builder.i32s("tokenizer.ggml.token_type", {1, 1});
         },
         {"\"tokenizer.ggml.token_type\"", "one type for each of"});
  expect("tokenizer.ggml.token_type",
         [](Builder& builder) { builder.i32s("tokenizer.ggml.token_type", {7}); },
         {"from 1 to 6 for \"tokenizer.ggml.token_type\""});
  expect("tokenizer.ggml.merges", [](Builder& builder) { builder.texts("tokenizer.ggml.merges", {"ab"}); },
         {"\"tokenizer.ggml.merges\"", "merge 0 is \"ab\""});
  expect("tokenizer.ggml.merges", [](Builder& builder) { builder.texts("tokenizer.ggml.merges", {"a zzz"}); },
         {"model.gguf", "\"zzz\" is not there"});
  expect("tokenizer.ggml.bos_token_id",
         [](Builder& builder) { builder.u32("tokenizer.ggml.bos_token_id", 561); },
         {"\"tokenizer.ggml.bos_token_id\"", "a token that is in use"});
}

TEST_F(GgufImportTest, RefusesTokensThatStandTwice) {
  TinyGguf tiny("smollm", "smollm");
  std::vector<std::string> tokens(static_cast<std::size_t>(tiny.vocabulary), "");
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = "t" + std::to_string(i % 500);
  tiny.builder.remove("tokenizer.ggml.tokens");
  tiny.builder.texts("tokenizer.ggml.tokens", tokens);
  expect_refused(tiny.builder, {"every token once", "\"t0\" is both 0 and 500"});
}

TEST_F(GgufImportTest, KeepsAFolderThatIsThereUnlessToldToReplaceIt) {
  const TinyGguf tiny("smollm", "smollm");
  const auto source = temporary.write("model.gguf", tiny.builder.build());
  import(tiny.builder);
  expect_error([&] { import_gguf({.source = source, .folder = folder}); },
               {"imported: exists already", "--overwrite"});
  import(tiny.builder);
  EXPECT_TRUE(std::filesystem::exists(folder / "config.json"));
  std::filesystem::remove(folder / "checksums.json");  // as any model of this kind
  expect_error([&] { import(tiny.builder); }, {"imported: expected an imported model", "does not remove"});
}

// Not even its own source.
TEST_F(GgufImportTest, ReplacesNoFolderThatHoldsAnythingElseAndNamesIt) {
  const TinyGguf tiny("smollm", "smollm");
  import(tiny.builder);
  const auto source = temporary.write("imported/model.gguf", tiny.builder.build());
  temporary.write("imported/notes/mine.txt", "kept");
  for (const ExistingImport existing : {ExistingImport::refuse, ExistingImport::replace}) {
    expect_error([&] { import_gguf({.source = source, .folder = folder, .existing = existing}); },
                 {"and nothing else, found model.gguf, notes, which --overwrite does not remove"});
  }
  EXPECT_TRUE(std::filesystem::exists(source));
  EXPECT_TRUE(std::filesystem::exists(folder / "notes/mine.txt"));
}

TEST_F(GgufImportTest, LooksAtThePlaceThatAPathThroughWhatIsNotThereLeadsTo) {
  const auto source = temporary.write("model.gguf", TinyGguf("smollm", "smollm").builder.build());
  temporary.write("imported/mine.txt", "kept");
  expect_error([&] { import_gguf({.source = source, .folder = temporary.path() / "missing/../imported"}); },
               {"found mine.txt, which --overwrite does not remove"});
}

TEST_F(GgufImportTest, AListWithoutFilesMakesNoImport) {
  temporary.write("imported/checksums.json", R"({"files": []})");
  temporary.write("imported/tokenizer.json", "of another");
  expect_error([&] { import(TinyGguf("smollm", "smollm").builder); }, {"it has no config.json"});
}

TEST_F(GgufImportTest, FillsAnEmptyFolderAndMakesThoseAboveIt) {
  const auto source = temporary.write("model.gguf", TinyGguf("smollm", "smollm").builder.build());
  std::filesystem::create_directory(folder);
  for (const std::filesystem::path& place : {folder, temporary.path() / "a/b/c", temporary.path() / "d/"}) {
    import_gguf({.source = source, .folder = place});
    verify_snapshot(place);
  }
  expect_error([&] { import_gguf({.source = source, .folder = ""}); }, {"expected the name of the folder"});
  expect_error([&] { import_gguf({.source = source, .folder = "./"}); }, {"name it from outside"});
}

TEST_F(GgufImportTest, FollowsALinkToItsFolder) {
  const auto source = temporary.write("model.gguf", TinyGguf("smollm", "smollm").builder.build());
  const std::filesystem::path link = temporary.path() / "link";
  std::filesystem::create_symlink("imported", link);
  expect_error([&] { import_gguf({.source = source, .folder = link}); },
               {"link: expected a folder, found a link to imported, which is not there"});
  std::filesystem::create_directory(folder);
  import_gguf({.source = source, .folder = link});
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  verify_snapshot(folder);
}

TEST_F(GgufImportTest, RemovesWhatAKilledImportOfThisFolderLeft) {
  temporary.write(".tmp-imported-1-0/model.safetensors", "half");
  temporary.write(".tmp-imported-not-1-0/model.safetensors", "of another folder");
  import(TinyGguf("smollm", "smollm").builder);
  EXPECT_FALSE(std::filesystem::exists(temporary.path() / ".tmp-imported-1-0"));
  EXPECT_TRUE(std::filesystem::exists(temporary.path() / ".tmp-imported-not-1-0"));
}

// Damaged anywhere, a file is read or refused with its name; never a crash.
TEST(GgufDamage, IsReadOrRefused) {
  const std::string good = TinyGguf("smollm", "smollm").builder.build();
  const std::size_t header_bytes =
      20000;  // tokens, configuration and tensors' numbers; weights matter little
  ASSERT_GT(good.size(), header_bytes);
  std::mt19937 generator(9);
  int refused = 0;
  for (int i = 0; i < 1500; ++i) {
    std::string bad = good;
    if (i % 5 == 0) bad.resize(generator() % bad.size());
    for (int j = 0; j < 1 + i % 4 && !bad.empty(); ++j) {
      const std::size_t place = generator() % std::min(bad.size(), header_bytes);
      bad[place] = static_cast<char>(i % 2 == 0 ? generator() : bad[place] ^ (1 << generator() % 8));
    }
    try {
      const GgufFile file(std::as_bytes(std::span(bad)), "bad.gguf");
      const TargetConfigFile config = read_gguf_llama(file);
      const auto tensors = llama_tensors(config);
      check_llama_tensors(file, tensors);
      read_gguf_tokenizer(file.metadata(), config.decoder.vocab_size);
      for (const LlamaTensor& tensor : tensors) {
        const GgufTensor& found = *file.find(tensor.gguf_name);
        std::vector<float> values(static_cast<std::size_t>(found.columns()));
        found.read_row(tensor.gguf_row(found.rows() - 1), values);
      }
    } catch (const Error& error) {
      ++refused;
      EXPECT_THAT(error.what(), testing::HasSubstr("bad.gguf"));
    }
  }
  EXPECT_GT(refused, 300);
}

}  // namespace
}  // namespace draftsmith
