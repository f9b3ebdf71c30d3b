#include "data/drafter_config.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"

namespace draftsmith {
namespace {

constexpr std::string_view kArchitecture = "DFlashDraftModel";
constexpr std::string_view kFullAttention = "full_attention";
constexpr std::string_view kSlidingAttention = "sliding_attention";
constexpr std::string_view kContradiction = "make them agree; which one it was trained with cannot be told";

// Keys of other drafter variants and file layouts: a plain DFlash forward would ignore them and draft badly.
constexpr std::array kForeignKeys{
    "conv_kernel_size",
    "conv_group_size",
    "selector_rank",
    "selector_top_k",
    "output_multiplier",
    "final_logit_softcapping",
    "projector_type",
    "attention_sink_bias",
    "attention_value_scale",
    "markov_rank",
    "markov_head_type",
    "enable_confidence_head",
    "speculators_model_type",
    "draft_vocab_size",
    "eagle_aux_hidden_state_layer_ids",
};

// A key at the top level and the same key in dflash_config, where newer files have it.
struct DrafterFields {
  JsonFields top;
  JsonFields inner;
};

void refuse_foreign(const JsonFields& fields) {
  for (const char* key : kForeignKeys)
    if (fields.has(key))
      fields.refuse(key, "no such key in a plain DFlash drafter", "this variant is not supported");
}

void check_kind(const DrafterFields& fields) {
  const std::vector<std::string> architectures =
      fields.top.find_texts("architectures").value_or(std::vector<std::string>{});
  if (architectures != std::vector<std::string>{std::string(kArchitecture)})
    fields.top.refuse("architectures", fmt::format("[\"{}\"]", kArchitecture),
                      "other drafters are not supported");
  if (fields.top.text("model_type") != "qwen3")
    fields.top.refuse("model_type", "\"qwen3\"", "which DFlash drafters state for targets of every family");
  refuse_foreign(fields.top);
  refuse_foreign(fields.inner);
}

std::int64_t read_block_size(const DrafterFields& fields) {
  constexpr IntegerRange kSlots{.least = 2, .most = 1024};
  const auto inner = fields.inner.find_integer("block_size", kSlots);
  if (!inner) return fields.top.integer("block_size", kSlots);
  const auto top = fields.top.find_integer("block_size", kSlots);
  if (top && *top != *inner)
    fields.top.refuse("block_size", fmt::format("{}, as in dflash_config", *inner), kContradiction);
  return *inner;
}

std::vector<std::int64_t> read_target_layer_ids(const DrafterFields& fields, std::int64_t target_layers) {
  const JsonFields& place =
      fields.inner.has("target_layer_ids") || !fields.top.has("target_layer_ids") ? fields.inner : fields.top;
  // The raw output of the last layer is not what every loader hands out under its number.
  std::vector<std::int64_t> ids =
      place.integers("target_layer_ids", {.least = 0, .most = std::max<std::int64_t>(target_layers - 2, 0)});
  const bool increasing = std::adjacent_find(ids.begin(), ids.end(), std::greater_equal<>()) == ids.end();
  if (ids.empty() || !increasing)
    place.refuse("target_layer_ids", "one or more layers, strictly increasing", "correct the list");
  return ids;
}

void read_layers(const DrafterFields& fields, DrafterConfigFile& config) {
  const std::size_t layers = static_cast<std::size_t>(config.decoder.num_hidden_layers);
  const bool uses_window = fields.top.find_boolean("use_sliding_window").value_or(false);
  const auto types = fields.top.find_texts("layer_types");
  if (!types && uses_window)
    fields.top.refuse("layer_types", "a list that says which layers slide, since use_sliding_window is true",
                      "add it");
  config.layer_types.assign(layers, DrafterLayerType::full_attention);
  if (!types) return;
  if (types->size() != layers)
    fields.top.refuse("layer_types", fmt::format("one for each of {} layers", layers), "correct the list");
  for (std::size_t i = 0; i < layers; ++i) {
    const std::string& type = (*types)[i];
    if (type != kFullAttention && type != kSlidingAttention)
      fields.top.refuse("layer_types", "only \"full_attention\" and \"sliding_attention\"",
                        "correct the list");
    if (type == kSlidingAttention) config.layer_types[i] = DrafterLayerType::sliding_attention;
  }
}

bool any_sliding(const DrafterConfigFile& config) {
  return std::count(config.layer_types.begin(), config.layer_types.end(),
                    DrafterLayerType::sliding_attention) > 0;
}

// The window and its causality. is_causal at the top wins over dflash_config.causal; without either, sliding
// layers are causal, as loaders take it.
void read_window(const DrafterFields& fields, DrafterConfigFile& config) {
  constexpr IntegerRange kWindow{.least = 1, .most = std::int64_t{1} << 31};
  const std::optional<bool> top = fields.top.find_boolean("is_causal");
  const std::optional<bool> stated = top ? top : fields.inner.find_boolean("causal");
  if (fields.inner.find_boolean("use_swa").value_or(false)) {
    // A window on every layer, without causality, whatever layer_types say.
    config.layer_types.assign(config.layer_types.size(), DrafterLayerType::sliding_attention);
    config.sliding_window = fields.inner.integer("swa_window_size", kWindow);
    config.is_causal = stated.value_or(false);
    return;
  }
  if (!any_sliding(config)) {
    if (stated.value_or(false))
      (top ? fields.top : fields.inner)
          .refuse(top ? "is_causal" : "causal", "false without sliding layers",
                  "causal blocks in full layers are not supported");
    return;
  }
  if (!fields.top.find_boolean("use_sliding_window").value_or(true))
    fields.top.refuse("use_sliding_window", "true, since layer_types has sliding layers", kContradiction);
  config.sliding_window = fields.top.integer("sliding_window", kWindow);
  config.is_causal = stated.value_or(true);
}

void check_other_sizes(const DrafterFields& fields, const DrafterConfigFile& config) {
  const auto width = fields.top.find_integer("target_hidden_size", {});
  if (width && *width != config.decoder.hidden_size)
    fields.top.refuse("target_hidden_size", fmt::format("hidden_size, {}", config.decoder.hidden_size),
                      "drafters share the target's embedding and head, so the widths are equal");
  if (!fields.top.find_boolean("is_neox_style").value_or(true))
    fields.top.refuse("is_neox_style", "true", "only rope over the halves of a head is supported");
}

// Loaders of this layout take the drafter for a Qwen3 model, which has no such scaling.
void refuse_llama3(const DrafterFields& fields, const DrafterConfigFile& config) {
  if (config.decoder.rope.rope_type != kLlama3Rope) return;
  fields.top.refuse(fields.top.has("rope_parameters") ? "rope_parameters" : "rope_scaling",
                    "no scaling, linear or yarn",
                    "llama3 scaling cannot be served with a drafter in this format");
}

JsonArray texts_of(const std::vector<DrafterLayerType>& types) {
  JsonArray texts;
  for (const DrafterLayerType type : types)
    texts.push_back(
        {std::string(type == DrafterLayerType::sliding_attention ? kSlidingAttention : kFullAttention)});
  return texts;
}

JsonObject dflash_members(const DrafterConfigFile& config) {
  JsonArray ids;
  for (const std::int64_t id : config.target_layer_ids) ids.push_back({id});
  return {{"mask_token_id", {config.mask_token_id}},
          {"target_layer_ids", {std::move(ids)}},
          {"block_size", {config.block_size}},
          {"causal", {config.is_causal}}};
}

}  // namespace

DrafterConfigFile parse_drafter_config(std::string_view text, const std::string& source) {
  const JsonValue document = parse_json(text, source);
  const JsonFields top(source, "", document);
  const DrafterFields fields{.top = top, .inner = top.object("dflash_config")};
  check_kind(fields);
  DrafterConfigFile config{
      .decoder = read_decoder_config(top),
      .attention_bias = top.find_boolean("attention_bias").value_or(false),
      .initializer_range = top.find_number("initializer_range", {.least = 0, .most = 1}).value_or(0.02),
      .num_target_layers = top.integer("num_target_layers", {.least = 2, .most = 4096}),
      .block_size = read_block_size(fields)};
  const JsonFields& mask_place =
      fields.inner.has("mask_token_id") || !top.has("mask_token_id") ? fields.inner : top;
  config.mask_token_id =
      mask_place.integer("mask_token_id", {.least = 0, .most = config.decoder.vocab_size - 1});
  config.target_layer_ids = read_target_layer_ids(fields, config.num_target_layers);
  read_layers(fields, config);
  read_window(fields, config);
  check_other_sizes(fields, config);
  refuse_llama3(fields, config);
  return config;
}

std::string write_drafter_config(const DrafterConfigFile& config) {
  const DecoderConfig& decoder = config.decoder;
  DRAFTSMITH_CHECK(static_cast<std::int64_t>(config.layer_types.size()) == decoder.num_hidden_layers,
                   "every layer has a type");
  const bool sliding = any_sliding(config);
  DRAFTSMITH_CHECK(sliding == (config.sliding_window > 0) && (sliding || !config.is_causal),
                   "window and causality belong to sliding layers");
  DRAFTSMITH_CHECK(decoder.rope.rope_type != kLlama3Rope, "a drafter's rope is not scaled as Llama 3's is");
  JsonObject out{{"architectures", {JsonArray{{std::string(kArchitecture)}}}},
                 {"model_type", {std::string("qwen3")}}};
  write_decoder_config(decoder, out);
  out.push_back({"attention_bias", {config.attention_bias}});
  out.push_back({"attention_dropout", {0.0}});
  out.push_back({"initializer_range", {config.initializer_range}});
  out.push_back({"tie_word_embeddings", {false}});
  out.push_back({"use_cache", {true}});
  out.push_back({"num_target_layers", {config.num_target_layers}});
  out.push_back({"block_size", {config.block_size}});
  out.push_back({"dflash_config", {dflash_members(config)}});
  out.push_back({"layer_types", {texts_of(config.layer_types)}});
  out.push_back({"sliding_window", sliding ? JsonValue{config.sliding_window} : JsonValue{}});
  out.push_back({"use_sliding_window", {sliding}});
  out.push_back({"max_window_layers", {decoder.num_hidden_layers}});
  out.push_back({"is_causal", {config.is_causal}});
  out.push_back({"dtype", {decoder.dtype}});
  out.push_back({"torch_dtype", {decoder.dtype}});
  return write_json({std::move(out)}, JsonLayout::indented);
}

std::vector<DrafterTensorShape> drafter_tensors(const DrafterConfigFile& config) {
  const DecoderConfig& sizes = config.decoder;
  const std::int64_t width = sizes.hidden_size, middle = sizes.intermediate_size, head = sizes.head_dim;
  const std::int64_t queries = sizes.num_attention_heads * head, keys = sizes.num_key_value_heads * head;
  const std::int64_t taps = static_cast<std::int64_t>(config.target_layer_ids.size());
  std::vector<DrafterTensorShape> tensors{{"fc.weight", {width, taps * width}},
                                          {"hidden_norm.weight", {width}}};
  for (std::int64_t i = 0; i < sizes.num_hidden_layers; ++i) {
    const auto add = [&](std::string_view name, std::vector<std::int64_t> shape) {
      tensors.push_back({fmt::format("layers.{}.{}", i, name), std::move(shape)});
    };
    const auto add_projection = [&](std::string_view name, std::int64_t rows, std::int64_t columns) {
      add(fmt::format("self_attn.{}.weight", name), {rows, columns});
      if (config.attention_bias) add(fmt::format("self_attn.{}.bias", name), {rows});
    };
    add("input_layernorm.weight", {width});
    add("post_attention_layernorm.weight", {width});
    add_projection("q_proj", queries, width);
    add_projection("k_proj", keys, width);
    add_projection("v_proj", keys, width);
    add_projection("o_proj", width, queries);
    add("self_attn.q_norm.weight", {head});
    add("self_attn.k_norm.weight", {head});
    add("mlp.gate_proj.weight", {middle, width});
    add("mlp.up_proj.weight", {middle, width});
    add("mlp.down_proj.weight", {width, middle});
  }
  tensors.push_back({"norm.weight", {width}});
  return tensors;
}

}  // namespace draftsmith
