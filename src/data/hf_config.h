// The configuration of a target: config.json and generation_config.json of a Hugging Face folder, as plain
// data. Qwen3, Qwen3-MoE, Qwen2 (2.5) and Llama are supported; every other model type, and every feature of
// these that the target forward does not compute, is an Error that names key, expected and found.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/decoder_config.h"

namespace draftsmith {

// The files' own names, but the last.
struct ExpertsConfig {
  std::int64_t num_experts = 0;  // or num_local_experts; 0: a dense model
  std::int64_t num_experts_per_tok = 0;
  std::int64_t moe_intermediate_size = 0;
  bool norm_topk_prob = false;
  // One per layer: not in mlp_only_layers, and (index + 1) a multiple of decoder_sparse_step. Empty: dense.
  std::vector<bool> sparse_layers;
};

struct TargetConfigFile {
  std::string model_type;                  // "qwen3", "qwen3_moe", "qwen2" or "llama"
  std::vector<std::string> architectures;  // as the file says, for the model card
  DecoderConfig decoder;
  bool tie_word_embeddings = false;  // the head is the embedding table
  bool qkv_bias = false;             // attention_bias; always for qwen2, whose file does not say it
  bool output_bias = false;          // attention_bias; never for qwen2
  bool head_norm = false;            // q_norm and k_norm: qwen3 and qwen3_moe
  ExpertsConfig experts;             // qwen3_moe
  std::vector<std::int64_t> eos_token_ids;
  std::optional<std::int64_t> bos_token_id;
  std::optional<std::int64_t> pad_token_id;
};

TargetConfigFile read_target_config(const std::filesystem::path& folder);
// `source` names the text in errors.
TargetConfigFile parse_target_config(std::string_view text, const std::string& source);

struct GenerationConfigFile {
  std::vector<std::int64_t> eos_token_ids;
};

// A folder without generation_config.json gives empty lists.
GenerationConfigFile read_generation_config(const std::filesystem::path& folder);
GenerationConfigFile parse_generation_config(std::string_view text, const std::string& source);

}  // namespace draftsmith
