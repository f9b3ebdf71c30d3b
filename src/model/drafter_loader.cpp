#include "model/drafter_loader.h"

#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/core.h>

#include "base/error.h"
#include "data/drafter_folder.h"
#include "data/snapshot.h"
#include "model/target_shape.h"

namespace draftsmith {

DrafterShape drafter_shape(const DrafterConfigFile& file) {
  const DecoderConfig& decoder = file.decoder;
  DrafterShape shape{.layers = decoder.num_hidden_layers,
                     .width = decoder.hidden_size,
                     .intermediate = decoder.intermediate_size,
                     .query_heads = decoder.num_attention_heads,
                     .kv_heads = decoder.num_key_value_heads,
                     .head_dim = decoder.head_dim,
                     .vocabulary = decoder.vocab_size,
                     .max_positions = decoder.max_position_embeddings,
                     .target_layers = file.num_target_layers,
                     .block_size = file.block_size,
                     .taps = file.target_layer_ids,
                     .mask_token_id = file.mask_token_id,
                     .epsilon = static_cast<float>(decoder.rms_norm_eps),
                     .rope = rope_shape(decoder.rope),
                     .attention_bias = file.attention_bias,
                     .sliding_window = file.sliding_window,
                     .causal_in_sliding_layers = file.is_causal};
  for (const DrafterLayerType type : file.layer_types) {
    shape.layer_kinds.push_back(type == DrafterLayerType::sliding_attention ? LayerKind::sliding
                                                                            : LayerKind::full);
  }
  check_drafter_shape(shape);
  return shape;
}

namespace {

// Of an export by draftsmith. The model card may be edited.
void check_against_list(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(folder / kChecksumFile)) return;
  verify_snapshot(folder,
                  {.only = {"config.json", "model.safetensors"},
                   .advice = "the drafter is damaged, or its files are of two exports: export it again, or "
                             "remove checksums.json if it was changed on purpose"});
}

}  // namespace

LoadedDrafter load_drafter(const std::filesystem::path& folder) {
  check_against_list(folder);
  const DrafterFolder files(folder);
  LoadedDrafter drafter{.shape = drafter_shape(files.config())};
  const WeightTable table = drafter_weight_table(drafter.shape);
  drafter.weights.resize(static_cast<std::size_t>(table.size));
  for (const WeightEntry& weight : table.entries) {
    const std::span<float> values(drafter.weights.data() + weight.offset,
                                  static_cast<std::size_t>(weight.size()));
    const TensorEntry& tensor = files.tensor(weight.name);
    check_shape(tensor, weight.dimensions());
    read_as(tensor, values);
    if (std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); })) continue;
    throw Error(fmt::format(
        "{} holds values that are not finite; the file is damaged or its training diverged", tensor.label));
  }
  return drafter;
}

}  // namespace draftsmith
