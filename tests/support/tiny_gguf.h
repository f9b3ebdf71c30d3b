// A whole model as a GGUF file: two small Llama layers with random weights, and one of the golden tokenizers.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/random.h"
#include "support/gguf_builder.h"

namespace draftsmith {

struct TinyGguf {
  static constexpr std::int64_t kWidth = 32, kMiddle = 64, kLayers = 2, kHeads = 2, kKvHeads = 1,
                                kHeadDim = 16;

  GgufBuilder builder;
  std::int64_t vocabulary = 0;
  // The weights as Hugging Face has them, by the file's names, row-major.
  std::map<std::string, std::vector<float>> weights;

  // `kind` is the file's name for the tokenizer, `folder` that of its golden case.
  TinyGguf(const std::string& kind, const std::string& folder) {
    add_tokenizer(kind, folder);
    add_config();
    add_weights();
  }

 private:
  void add_tokenizer(const std::string& kind, const std::string& folder) {
    std::ifstream stream(std::string(DRAFTSMITH_SOURCE_DIR) + "/tests/golden/tokenizer/" + folder +
                         "/tokenizer.json");
    const nlohmann::json document = nlohmann::json::parse(stream);
    std::map<std::int64_t, std::string> texts;
    std::map<std::int64_t, std::int32_t> types;  // 1 normal, 3 control, 4 user-defined, 5 unused
    for (const auto& [text, id] : document["model"]["vocab"].items()) texts[id] = text;
    for (const auto& token : document["added_tokens"]) {
      texts[token["id"]] = token["content"];
      types[token["id"]] = token["special"].get<bool>() ? 3 : 4;
    }
    vocabulary = texts.rbegin()->first + 3;  // with padding rows
    std::vector<std::string> tokens, merges;
    std::vector<std::int32_t> token_types;
    for (std::int64_t id = 0; id < vocabulary; ++id) {
      const bool is_used = texts.contains(id);
      tokens.push_back(is_used ? texts[id] : "[PAD" + std::to_string(id) + "]");
      token_types.push_back(!is_used ? 5 : types.contains(id) ? types[id] : 1);
    }
    for (const auto& merge : document["model"]["merges"])
      merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
    builder.text("tokenizer.ggml.model", "gpt2");
    builder.text("tokenizer.ggml.pre", kind);
    builder.texts("tokenizer.ggml.tokens", tokens);
    builder.i32s("tokenizer.ggml.token_type", token_types);
    builder.texts("tokenizer.ggml.merges", merges);
    const auto first_special = static_cast<std::uint32_t>(types.begin()->first);
    builder.u32("tokenizer.ggml.bos_token_id", first_special);
    builder.u32("tokenizer.ggml.eos_token_id", first_special + 2);
    builder.u32("tokenizer.ggml.padding_token_id", first_special + 2);
  }

  void add_config() {
    builder.text("general.architecture", "llama");
    builder.u32("llama.block_count", kLayers);
    builder.u32("llama.context_length", 256);
    builder.u32("llama.embedding_length", kWidth);
    builder.u32("llama.feed_forward_length", kMiddle);
    builder.u32("llama.attention.head_count", kHeads);
    builder.u32("llama.attention.head_count_kv", kKvHeads);
    builder.f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    builder.f32("llama.rope.freq_base", 100000.0f);
    builder.u32("llama.rope.dimension_count", kHeadDim);
  }

  // Rows in the file's order: within each head, the first half and the second half take turns.
  static std::vector<float> interleaved(const std::vector<float>& rows, std::int64_t columns) {
    std::vector<float> out(rows.size());
    const auto half = static_cast<std::size_t>(kHeadDim / 2), width = static_cast<std::size_t>(columns);
    const std::size_t heads = rows.size() / width / kHeadDim;
    std::size_t to = 0;
    for (std::size_t head = 0; head < heads; ++head)
      for (std::size_t pair = 0; pair < half; ++pair)
        for (const std::size_t from : {head * kHeadDim + pair, head * kHeadDim + half + pair})
          for (std::size_t column = 0; column < width; ++column) out[to++] = rows[from * width + column];
    return out;
  }

  void add(const std::string& name, std::vector<std::uint64_t> shape, bool rotates = false) {
    std::size_t count = 1;
    for (const std::uint64_t size : shape) count *= size;
    const Random random(5, RandomStream::initial_weights, static_cast<std::uint32_t>(weights.size()));
    std::vector<float>& values = weights[name];
    for (std::size_t i = 0; i < count; ++i) values.push_back(0.2f * static_cast<float>(random.normal(i)));
    const std::vector<float> stored =
        rotates ? interleaved(values, static_cast<std::int64_t>(shape.back())) : values;
    std::string bytes;
    for (const float value : stored) bytes += little_endian(value);
    builder.tensors.push_back({name, std::move(shape), 0, std::move(bytes)});
  }

  void add_weights() {
    const auto rows = static_cast<std::uint64_t>(vocabulary);
    constexpr std::uint64_t kKeys = kKvHeads * kHeadDim;
    add("token_embd.weight", {rows, kWidth});
    for (std::int64_t i = 0; i < kLayers; ++i) {
      const std::string layer = "blk." + std::to_string(i) + ".";
      add(layer + "attn_norm.weight", {kWidth});
      add(layer + "attn_q.weight", {kWidth, kWidth}, true);
      add(layer + "attn_k.weight", {kKeys, kWidth}, true);
      add(layer + "attn_v.weight", {kKeys, kWidth});
      add(layer + "attn_output.weight", {kWidth, kWidth});
      add(layer + "ffn_norm.weight", {kWidth});
      add(layer + "ffn_gate.weight", {kMiddle, kWidth});
      add(layer + "ffn_up.weight", {kMiddle, kWidth});
      add(layer + "ffn_down.weight", {kWidth, kMiddle});
    }
    add("output_norm.weight", {kWidth});
    add("output.weight", {rows, kWidth});
  }
};

}  // namespace draftsmith
