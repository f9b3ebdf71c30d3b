#include "data/gguf_llama.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "base/nearest.h"
#include "data/tensor_entry.h"

namespace draftsmith {
namespace {

constexpr std::string_view kEmbedding = "token_embd.weight";
constexpr std::string_view kHead = "output.weight";
constexpr std::string_view kRopeFactors = "rope_freqs.weight";
constexpr std::string_view kOtherModel = "choose another model";

// The ranges of Hugging Face configurations, which read the result again.
constexpr IntegerRange kWidth{.least = 1, .most = std::int64_t{1} << 20};
constexpr IntegerRange kSmall{.least = 1, .most = 4096};
constexpr IntegerRange kPositions{.least = 1, .most = std::int64_t{1} << 31};

void refuse_other_features(const GgufMetadata& metadata) {
  if (const auto architecture = metadata.text("general.architecture"); architecture != "llama")
    metadata.refuse("general.architecture", "\"llama\"", "other architectures are not imported");
  if (metadata.find_integer("llama.expert_count", {}).value_or(0) != 0)
    metadata.refuse("llama.expert_count", "0 or no such key", "mixtures of experts are not imported");
  if (!metadata.find_boolean("llama.attention.causal").value_or(true))
    metadata.refuse("llama.attention.causal", "true", kOtherModel);
  for (const char* key : {"llama.attention.sliding_window", "llama.attention.scale", "llama.logit_scale"})
    if (metadata.has(key)) metadata.refuse(key, "no such key", kOtherModel);
}

std::int64_t read_head_dim(const GgufMetadata& metadata, const DecoderConfig& sizes) {
  const std::int64_t head_dim = metadata.find_integer("llama.attention.key_length", kSmall)
                                    .value_or(sizes.hidden_size / sizes.num_attention_heads);
  for (const char* key : {"llama.attention.value_length", "llama.rope.dimension_count"})
    if (metadata.find_integer(key, kSmall).value_or(head_dim) != head_dim)
      metadata.refuse(key, fmt::format("the width of a head, {}", head_dim), kOtherModel);
  if (head_dim < 2 || head_dim % 2 != 0)
    metadata.refuse("llama.attention.head_count", "heads of an even width", kOtherModel);
  return head_dim;
}

// What Llama 3's scaling divides the frequency of pair `pair` by.
double llama3_factor(const RopeConfig& rope, std::int64_t pair, std::int64_t head_dim) {
  const double wavelength =
      2 * std::numbers::pi *
      std::pow(rope.rope_theta, 2 * static_cast<double>(pair) / static_cast<double>(head_dim));
  const double turns = static_cast<double>(rope.original_max_position_embeddings) / wavelength;
  if (turns > rope.high_freq_factor) return 1;
  if (turns < rope.low_freq_factor) return rope.factor;
  const double smooth = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return 1 / ((1 - smooth) / rope.factor + smooth);
}

// The file keeps what the scaling of Llama 3 comes to, a factor a pair, and not its four numbers. Three of
// them are the same in every release, the fourth is the largest factor; the result must give all factors
// back. They were computed in float: a frequency is off by 2^-22 at most, which the smooth part, of slope
// factor * turns / (high - low), makes less than 1e-4 for factors up to 512.
void read_rope_factors(const GgufTensor& tensor, std::int64_t head_dim, RopeConfig& rope) {
  if (tensor.shape != std::vector<std::int64_t>{head_dim / 2})
    throw Error(fmt::format("{}: expected shape [{}], found {}; {}", tensor.label, head_dim / 2,
                            describe_shape(tensor.shape), kOtherModel));
  std::vector<float> factors(static_cast<std::size_t>(head_dim / 2));
  tensor.read_row(0, factors);
  rope.rope_type = kLlama3Rope;
  rope.factor = *std::max_element(factors.begin(), factors.end());
  rope.low_freq_factor = 1;
  rope.high_freq_factor = 4;
  rope.original_max_position_embeddings = 8192;
  for (std::size_t pair = 0; pair < factors.size(); ++pair) {
    const double expected = llama3_factor(rope, static_cast<std::int64_t>(pair), head_dim);
    if (std::abs(factors[pair] - expected) <= 1e-4 * expected) continue;
    throw Error(
        fmt::format("{}: expected the factors of Llama 3's rope scaling (low 1, high 4, original context "
                    "8192), {} for pair {}, found {}; other scalings are not imported",
                    tensor.label, expected, pair, factors[pair]));
  }
}

RopeConfig read_rope(const GgufFile& file, std::int64_t head_dim) {
  const GgufMetadata& metadata = file.metadata();
  RopeConfig rope{
      .rope_theta = metadata.find_number("llama.rope.freq_base", {.least = 1, .most = 1e12}).value_or(10000)};
  const std::string type = metadata.find_text("llama.rope.scaling.type").value_or("linear");
  if (type == "linear") {
    rope.factor = metadata.find_number("llama.rope.scaling.factor", {.least = 1, .most = 1e6}).value_or(1);
    if (rope.factor != 1) rope.rope_type = kLinearRope;
  } else if (type != "none") {
    metadata.refuse("llama.rope.scaling.type", "\"none\" or \"linear\"", "other scalings are not imported");
  }
  const GgufTensor* factors = file.find(kRopeFactors);
  if (factors && rope.rope_type != kDefaultRope)
    throw Error(fmt::format("{}: stands beside \"llama.rope.scaling.factor\"; expected one of the two; {}",
                            factors->label, kOtherModel));
  if (factors) read_rope_factors(*factors, head_dim, rope);
  return rope;
}

// Rows of the embedding table, padding rows too.
std::int64_t read_vocabulary(const GgufFile& file) {
  const GgufTensor* embedding = file.find(kEmbedding);
  if (!embedding || embedding->shape.size() != 2)
    throw Error(fmt::format(
        "{}: expected a tensor '{}' of two dimensions, found {}; is the file one part of "
        "several? Join them first",
        file.name(), kEmbedding, embedding ? describe_shape(embedding->shape) : "no such tensor"));
  const std::int64_t rows = embedding->shape[0];
  if (file.metadata().find_integer("llama.vocab_size", {}).value_or(rows) != rows)
    file.metadata().refuse("llama.vocab_size", fmt::format("{}, the rows of {}", rows, kEmbedding),
                           kOtherModel);
  return rows;
}

void read_token_ids(const GgufMetadata& metadata, TargetConfigFile& config) {
  const IntegerRange ids{.least = 0, .most = config.decoder.vocab_size - 1};
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    const auto id = metadata.find_integer(key, ids);
    auto& known = config.eos_token_ids;
    if (id && std::find(known.begin(), known.end(), *id) == known.end()) known.push_back(*id);
  }
  config.bos_token_id = metadata.find_integer("tokenizer.ggml.bos_token_id", ids);
  config.pad_token_id = metadata.find_integer("tokenizer.ggml.padding_token_id", ids);
}

JsonValue id_or_null(const std::optional<std::int64_t>& id) { return id ? JsonValue{*id} : JsonValue{}; }

// At most five, since another model's file has hundreds.
std::string list_names(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 5;
  if (names.empty()) return "none";
  if (names.size() <= kShown) return join(names, ", ");
  const std::vector<std::string> first(names.begin(), names.begin() + kShown);
  return fmt::format("{} and {} more", join(first, ", "), names.size() - kShown);
}

}  // namespace

TargetConfigFile read_gguf_llama(const GgufFile& file) {
  const GgufMetadata& metadata = file.metadata();
  refuse_other_features(metadata);
  TargetConfigFile config{.model_type = "llama",
                          .architectures = {"LlamaForCausalLM"},
                          .tie_word_embeddings = file.find(kHead) == nullptr};
  DecoderConfig& sizes = config.decoder;
  sizes.hidden_size = metadata.integer("llama.embedding_length", kWidth);
  sizes.intermediate_size = metadata.integer("llama.feed_forward_length", kWidth);
  sizes.num_hidden_layers = metadata.integer("llama.block_count", kSmall);
  sizes.num_attention_heads = metadata.integer("llama.attention.head_count", kSmall);
  sizes.num_key_value_heads =
      metadata.find_integer("llama.attention.head_count_kv", kSmall).value_or(sizes.num_attention_heads);
  sizes.head_dim = read_head_dim(metadata, sizes);
  sizes.vocab_size = read_vocabulary(file);
  sizes.max_position_embeddings = metadata.integer("llama.context_length", kPositions);
  sizes.rms_norm_eps = metadata.number("llama.attention.layer_norm_rms_epsilon", {.least = 0, .most = 1});
  sizes.rope = read_rope(file, sizes.head_dim);
  read_token_ids(metadata, config);
  return config;
}

std::string write_llama_config(const TargetConfigFile& config) {
  JsonArray eos;
  for (const std::int64_t id : config.eos_token_ids) eos.push_back({id});
  JsonObject out{{"architectures", {JsonArray{{config.architectures.front()}}}},
                 {"model_type", {config.model_type}}};
  write_decoder_config(config.decoder, out);
  out.push_back({"attention_bias", {false}});
  out.push_back({"mlp_bias", {false}});
  out.push_back({"tie_word_embeddings", {config.tie_word_embeddings}});
  out.push_back({"bos_token_id", id_or_null(config.bos_token_id)});
  out.push_back({"eos_token_id", eos.empty() ? JsonValue{} : eos.size() == 1 ? eos[0] : JsonValue{eos}});
  out.push_back({"pad_token_id", id_or_null(config.pad_token_id)});
  out.push_back({"dtype", {config.decoder.dtype}});
  out.push_back({"torch_dtype", {config.decoder.dtype}});
  return write_json({std::move(out)}, JsonLayout::indented);
}

std::int64_t LlamaTensor::gguf_row(std::int64_t row) const {
  if (rotated_head_dim == 0) return row;
  const std::int64_t half = rotated_head_dim / 2;
  const std::int64_t head = row / rotated_head_dim, within = row % rotated_head_dim;
  return head * rotated_head_dim + within % half * 2 + within / half;
}

std::vector<LlamaTensor> llama_tensors(const TargetConfigFile& config) {
  const DecoderConfig& sizes = config.decoder;
  const std::int64_t width = sizes.hidden_size, middle = sizes.intermediate_size, head = sizes.head_dim;
  const std::int64_t queries = sizes.num_attention_heads * head, keys = sizes.num_key_value_heads * head;
  std::vector<LlamaTensor> tensors{
      {std::string(kEmbedding), "model.embed_tokens.weight", {sizes.vocab_size, width}}};
  for (std::int64_t i = 0; i < sizes.num_hidden_layers; ++i) {
    const auto add = [&](std::string_view gguf_name, std::string_view name, std::vector<std::int64_t> shape,
                         std::int64_t rotated_head_dim = 0) {
      tensors.push_back({fmt::format("blk.{}.{}.weight", i, gguf_name),
                         fmt::format("model.layers.{}.{}.weight", i, name), std::move(shape),
                         rotated_head_dim});
    };
    add("attn_norm", "input_layernorm", {width});
    add("attn_q", "self_attn.q_proj", {queries, width}, head);
    add("attn_k", "self_attn.k_proj", {keys, width}, head);
    add("attn_v", "self_attn.v_proj", {keys, width});
    add("attn_output", "self_attn.o_proj", {width, queries});
    add("ffn_norm", "post_attention_layernorm", {width});
    add("ffn_gate", "mlp.gate_proj", {middle, width});
    add("ffn_up", "mlp.up_proj", {middle, width});
    add("ffn_down", "mlp.down_proj", {width, middle});
  }
  tensors.push_back({"output_norm.weight", "model.norm.weight", {width}});
  if (!config.tie_word_embeddings)
    tensors.push_back({std::string(kHead), "lm_head.weight", {sizes.vocab_size, width}});
  return tensors;
}

void check_llama_tensors(const GgufFile& file, const std::vector<LlamaTensor>& tensors) {
  std::set<std::string, std::less<>> known{std::string(kRopeFactors)};
  std::vector<std::string> missing, unknown;
  for (const LlamaTensor& tensor : tensors) {
    known.insert(tensor.gguf_name);
    if (!file.find(tensor.gguf_name)) missing.push_back(tensor.gguf_name);
  }
  for (const std::string& name : file.names())
    if (!known.contains(name)) unknown.push_back(name);
  if (!missing.empty() || !unknown.empty())
    throw Error(
        fmt::format("{}: expected the {} tensors of a Llama of these sizes, found missing: {}; unknown: {}; "
                    "only models without biases and experts, in one file, are imported",
                    file.name(), tensors.size(), list_names(missing), list_names(unknown)));
  for (const LlamaTensor& tensor : tensors) {
    const GgufTensor& found = *file.find(tensor.gguf_name);
    if (found.shape == tensor.shape) continue;
    throw Error(
        fmt::format("{}: expected shape {} by the file's key-value pairs, found {}; convert the model "
                    "again",
                    found.label, describe_shape(tensor.shape), describe_shape(found.shape)));
  }
}

}  // namespace draftsmith
