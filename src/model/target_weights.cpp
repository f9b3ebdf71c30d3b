// The target's weights: laid out for fused products (q, k and v in one matrix, gate over up), and read from
// the tensors of a Hugging Face folder, part by part.
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/core.h>

#include "data/quantised.h"
#include "data/tensor_store.h"
#include "model/target.h"
#include "model/tensor_reader.h"

namespace draftsmith {
namespace {

template <typename T>
TargetLayerWeights<T> carve_layer(Carver& carver, const TargetShape& shape, std::int64_t index) {
  const std::int64_t query_key_value = shape.query_width() + 2 * shape.kv_width();
  TargetLayerWeights<T> layer;
  layer.input_norm = carver.vector<T>(shape.width);
  layer.post_attention_norm = carver.vector<T>(shape.width);
  if (shape.head_norm) {
    layer.query_norm = carver.vector<T>(shape.head_dim);
    layer.key_norm = carver.vector<T>(shape.head_dim);
  }
  layer.query_key_value = carver.matrix<T>(query_key_value, shape.width);
  if (shape.qkv_bias) layer.query_key_value_bias = carver.vector<T>(query_key_value);
  layer.output = carver.matrix<T>(shape.width, shape.query_width());
  if (shape.output_bias) layer.output_bias = carver.vector<T>(shape.width);
  if (shape.sparse(index)) {
    layer.experts = carve_expert_weights<T>(carver, shape);
    return layer;
  }
  layer.gate_up = carver.matrix<T>(2 * shape.intermediate, shape.width);
  layer.down = carver.matrix<T>(shape.width, shape.intermediate);
  return layer;
}

template <typename T>
void load_tables(const TensorReader<T>& reader, const TargetShape& shape, const VocabularyTables<T>& tables) {
  const TensorStore& store = reader.store();
  refuse_quantised_tensors(store);
  reader.matrix("model.embed_tokens.weight", tables.embedding);
  if (shape.tied_head) return;
  if (store.find("lm_head.weight") == nullptr) {
    throw Error(fmt::format(
        "{} has no tensor 'lm_head.weight', and config.json does not tie the head to the embedding "
        "(tie_word_embeddings is not true). The head is never guessed: fetch the missing file, or "
        "correct config.json if the model is tied",
        store.folder().string()));
  }
  reader.matrix("lm_head.weight", tables.head);
}

// Parts of a fused vector or matrix, in file order: q, k, v.
template <typename T>
void load_query_key_value(const TensorReader<T>& reader, const std::string& prefix, const TargetShape& shape,
                          const TargetLayerWeights<T>& layer) {
  struct Part {
    const char* name;
    std::int64_t rows;
  };
  const Part parts[] = {
      {"q_proj", shape.query_width()}, {"k_proj", shape.kv_width()}, {"v_proj", shape.kv_width()}};
  std::int64_t first = 0;
  for (const Part& part : parts) {
    const std::string name = prefix + "self_attn." + part.name;
    reader.matrix(name + ".weight", layer.query_key_value.slice_rows(first, part.rows));
    if (shape.qkv_bias) {
      reader.vector(name + ".bias", layer.query_key_value_bias.slice(first, part.rows));
    } else {
      reader.expect_absent(name + ".bias");
    }
    first += part.rows;
  }
}

template <typename T>
void load_layer(const TensorReader<T>& reader, const std::string& prefix, const TargetShape& shape,
                const TargetLayerWeights<T>& layer) {
  reader.vector(prefix + "input_layernorm.weight", layer.input_norm);
  reader.vector(prefix + "post_attention_layernorm.weight", layer.post_attention_norm);
  if (shape.head_norm) {
    reader.vector(prefix + "self_attn.q_norm.weight", layer.query_norm);
    reader.vector(prefix + "self_attn.k_norm.weight", layer.key_norm);
  } else {
    reader.expect_absent(prefix + "self_attn.q_norm.weight");
  }
  load_query_key_value(reader, prefix, shape, layer);
  reader.matrix(prefix + "self_attn.o_proj.weight", layer.output);
  if (shape.output_bias) {
    reader.vector(prefix + "self_attn.o_proj.bias", layer.output_bias);
  } else {
    reader.expect_absent(prefix + "self_attn.o_proj.bias");
  }
  if (layer.experts.router.rows > 0) return load_expert_weights(reader, prefix, shape, layer.experts);
  reader.matrix(prefix + "mlp.gate_proj.weight", layer.gate_up.slice_rows(0, shape.intermediate));
  reader.matrix(prefix + "mlp.up_proj.weight",
                layer.gate_up.slice_rows(shape.intermediate, shape.intermediate));
  reader.matrix(prefix + "mlp.down_proj.weight", layer.down);
}

// The layers that config.json counts are the whole model: further ones would be dropped silently.
void refuse_further_layers(const TensorStore& store, std::int64_t layers) {
  constexpr std::string_view kLayers = "model.layers.";
  for (const std::string& name : store.names()) {
    std::int64_t layer = 0;
    if (!name.starts_with(kLayers)) continue;
    if (std::from_chars(name.data() + kLayers.size(), name.data() + name.size(), layer).ec != std::errc{})
      continue;
    if (layer < layers) continue;
    throw Error(
        fmt::format("{}: expected tensors of the layers 0 to {}, as num_hidden_layers in config.json is {}, "
                    "found one of layer {}; do config.json and the weights belong together?",
                    store.at(name).label, layers - 1, layers, layer));
  }
}

template <typename T>
void load_all(const TensorReader<T>& reader, const TargetShape& shape, const TargetWeights<T>& weights) {
  load_tables(reader, shape, weights.tables);
  refuse_further_layers(reader.store(), shape.layers);
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    load_layer(reader, fmt::format("model.layers.{}.", i), shape, weights.layers[i]);
  }
  reader.vector("model.norm.weight", weights.norm);
}

}  // namespace

template <typename T>
VocabularyTables<T> carve_vocabulary_tables(Carver& carver, const TargetShape& shape) {
  VocabularyTables<T> tables;
  tables.embedding = carver.matrix<T>(shape.vocabulary, shape.width);
  tables.head = shape.tied_head ? tables.embedding : carver.matrix<T>(shape.vocabulary, shape.width);
  return tables;
}

template <typename T>
TargetWeights<T> carve_target_weights(Carver& carver, const TargetShape& shape, std::int64_t layers) {
  DRAFTSMITH_CHECK(layers >= 0 && layers <= shape.layers, "the first layers of the target");
  TargetWeights<T> weights{.tables = carve_vocabulary_tables<T>(carver, shape)};
  for (std::int64_t i = 0; i < layers; ++i) weights.layers.push_back(carve_layer<T>(carver, shape, i));
  weights.norm = carver.vector<T>(shape.width);
  return weights;
}

template <typename T>
void load_vocabulary_tables(const Stream& stream, const std::filesystem::path& folder,
                            const TargetShape& shape, const VocabularyTables<T>& tables) {
  const TensorStore store(folder);
  load_tables(TensorReader<T>(stream, store), shape, tables);
}

template <typename T>
void load_target_weights(const Stream& stream, const std::filesystem::path& folder, const TargetShape& shape,
                         const TargetWeights<T>& weights) {
  const TensorStore store(folder);
  load_all(TensorReader<T>(stream, store), shape, weights);
}

void check_target_weights(const std::filesystem::path& folder, const TargetShape& shape,
                          std::int64_t layers) {
  const TensorStore store(folder);
  Carver count;
  load_all(TensorReader<bf16>(store), shape, carve_target_weights<bf16>(count, shape, layers));
}

#define DRAFTSMITH_INSTANTIATE(T)                                                                          \
  template VocabularyTables<T> carve_vocabulary_tables<T>(Carver&, const TargetShape&);                    \
  template TargetWeights<T> carve_target_weights<T>(Carver&, const TargetShape&, std::int64_t);            \
  template void load_vocabulary_tables<T>(const Stream&, const std::filesystem::path&, const TargetShape&, \
                                          const VocabularyTables<T>&);                                     \
  template void load_target_weights<T>(const Stream&, const std::filesystem::path&, const TargetShape&,    \
                                       const TargetWeights<T>&);
DRAFTSMITH_INSTANTIATE(float)
DRAFTSMITH_INSTANTIATE(bf16)
#undef DRAFTSMITH_INSTANTIATE

}  // namespace draftsmith
