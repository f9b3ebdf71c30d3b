#include "data/hf_config.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/error.h"
#include "data/file.h"

namespace draftsmith {
namespace {

struct Family {
  std::string_view model_type;
  bool implied_qkv_bias = false;  // else attention_bias says it, for q, k, v and o
  bool head_norm = false;
  bool experts = false;
};

// Complete: another family is another row, and whatever the target forward needs.
constexpr std::array kFamilies{Family{.model_type = "qwen3", .head_norm = true},
                               Family{.model_type = "qwen3_moe", .head_norm = true, .experts = true},
                               Family{.model_type = "qwen2", .implied_qkv_bias = true},
                               Family{.model_type = "llama"}};

const Family& read_family(const JsonFields& fields) {
  const std::string model_type = fields.text("model_type");
  for (const Family& family : kFamilies)
    if (family.model_type == model_type) return family;
  fields.refuse("model_type", "\"qwen3\", \"qwen3_moe\", \"qwen2\" or \"llama\"",
                "other model families are not supported as targets");
}

// num_experts, which transformers 5 calls num_local_experts.
std::int64_t read_expert_count(const JsonFields& fields) {
  constexpr IntegerRange kExperts{.least = 1, .most = 65536};
  const std::optional<std::int64_t> local = fields.find_integer("num_local_experts", kExperts);
  if (!local) return fields.integer("num_experts", kExperts);
  const std::int64_t count = fields.find_integer("num_experts", kExperts).value_or(*local);
  if (count != *local)
    fields.refuse("num_experts", fmt::format("{}, as num_local_experts", *local), "correct one of them");
  return count;
}

ExpertsConfig read_experts(const JsonFields& fields, std::int64_t layers) {
  ExpertsConfig experts{.num_experts = read_expert_count(fields)};
  experts.num_experts_per_tok =
      fields.integer("num_experts_per_tok", {.least = 1, .most = experts.num_experts});
  experts.moe_intermediate_size =
      fields.integer("moe_intermediate_size", {.least = 1, .most = std::int64_t{1} << 20});
  const std::optional<bool> normalised = fields.find_boolean("norm_topk_prob");
  if (!normalised) fields.refuse("norm_topk_prob", "true or false", "add what the model was trained with");
  experts.norm_topk_prob = *normalised;
  const std::int64_t step =
      fields.find_integer("decoder_sparse_step", {.least = 1, .most = 4096}).value_or(1);
  for (std::int64_t layer = 0; layer < layers; ++layer)
    experts.sparse_layers.push_back((layer + 1) % step == 0);
  const IntegerRange layer_indices{.least = 0, .most = layers - 1};
  for (const std::int64_t layer : fields.integers_or_one("mlp_only_layers", layer_indices))
    experts.sparse_layers[static_cast<std::size_t>(layer)] = false;
  return experts;
}

// Windows that are in use. Released files carry the keys of windows without using them.
void refuse_windows(const JsonFields& fields, std::int64_t layers) {
  constexpr std::string_view kAdvice = "targets with sliding-window layers are not supported";
  if (const auto types = fields.find_texts("layer_types")) {
    if (static_cast<std::int64_t>(types->size()) != layers)
      fields.refuse("layer_types", fmt::format("one for each of {} layers", layers), "correct the list");
    for (const std::string& type : *types)
      if (type != "full_attention") fields.refuse("layer_types", "only \"full_attention\"", kAdvice);
    return;
  }
  if (!fields.find_boolean("use_sliding_window").value_or(false) || !fields.has("sliding_window")) return;
  const std::int64_t first = fields.find_integer("max_window_layers", {}).value_or(0);
  if (first < layers) fields.refuse("use_sliding_window", "false", kAdvice);
}

// -1 means none in some files.
std::optional<std::int64_t> read_optional_id(const JsonFields& fields, std::string_view key,
                                             IntegerRange ids) {
  const std::optional<std::int64_t> id = fields.find_integer(key, {.least = -1, .most = ids.most});
  return id && *id >= 0 ? id : std::nullopt;
}

}  // namespace

TargetConfigFile parse_target_config(std::string_view text, const std::string& source) {
  const JsonValue document = parse_json(text, source);
  const JsonFields fields(source, "", document);
  const Family& family = read_family(fields);
  const bool attention_bias = fields.find_boolean("attention_bias").value_or(false);
  TargetConfigFile config{
      .model_type = std::string(family.model_type),
      .architectures = fields.find_texts("architectures").value_or(std::vector<std::string>{}),
      .decoder = read_decoder_config(fields),
      .tie_word_embeddings = fields.find_boolean("tie_word_embeddings").value_or(false),
      .qkv_bias = family.implied_qkv_bias || attention_bias,
      .output_bias = !family.implied_qkv_bias && attention_bias,
      .head_norm = family.head_norm};
  if (family.experts) config.experts = read_experts(fields, config.decoder.num_hidden_layers);
  refuse_windows(fields, config.decoder.num_hidden_layers);
  if (fields.find_boolean("mlp_bias").value_or(false))
    fields.refuse("mlp_bias", "false", "biases in the MLP are not supported");
  const IntegerRange ids{.least = 0, .most = config.decoder.vocab_size - 1};
  config.eos_token_ids = fields.integers_or_one("eos_token_id", ids);
  config.bos_token_id = read_optional_id(fields, "bos_token_id", ids);
  config.pad_token_id = read_optional_id(fields, "pad_token_id", ids);
  return config;
}

TargetConfigFile read_target_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  return parse_target_config(read_text_file(path), path.string());
}

GenerationConfigFile parse_generation_config(std::string_view text, const std::string& source) {
  const JsonValue document = parse_json(text, source);
  const JsonFields fields(source, "", document);
  return {.eos_token_ids = fields.integers_or_one("eos_token_id", {})};
}

GenerationConfigFile read_generation_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "generation_config.json";
  if (!std::filesystem::exists(path)) return {};
  return parse_generation_config(read_text_file(path), path.string());
}

}  // namespace draftsmith
