#include "model/drafter_export.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "base/error.h"
#include "data/drafter_folder.h"
#include "data/file.h"
#include "data/snapshot.h"
#include "model/target_shape.h"
#include "model/weights.h"

namespace draftsmith {
namespace {

// The decimal number that a float was read from: 1e-6, not the float's own 9.99999997e-07.
double shortest_decimal(float value) { return std::stod(fmt::format("{}", value)); }

std::span<const float> values_of(const DrafterExport& drafter, const WeightEntry& entry) {
  const Vector<const float> values = drafter.weights.slice(entry.offset, entry.size());
  return {values.data, static_cast<std::size_t>(values.size)};
}

void compare(const std::filesystem::path& folder, const DrafterConfigFile& config, const WeightTable& table,
             const DrafterExport& drafter) {
  constexpr const char* kAdvice = "the disk did not keep what was written; export again";
  const DrafterFolder written(folder);
  DrafterConfigFile expected = config;
  expected.decoder.dtype = "bfloat16";
  if (written.config() != expected) {
    throw Error(fmt::format("{}: the configuration read back is another one; {}",
                            (folder / "config.json").string(), kAdvice));
  }
  std::vector<bf16> values;
  for (const WeightEntry& entry : table.entries) {
    const TensorEntry& tensor = written.tensor(entry.name);
    check_shape(tensor, entry.dimensions());
    values.resize(static_cast<std::size_t>(entry.size()));
    read_as(tensor, std::span<bf16>(values));
    const std::span<const float> trained = values_of(drafter, entry);
    const bool same = std::equal(values.begin(), values.end(), trained.begin(),
                                 [](bf16 read, float value) { return read.bits == bf16(value).bits; });
    if (!same) throw Error(fmt::format("{}: the values read back are others; {}", tensor.label, kAdvice));
  }
}

}  // namespace

DrafterConfigFile drafter_config_file(const DrafterShape& shape) {
  DrafterConfigFile file;
  file.decoder = {.hidden_size = shape.width,
                  .intermediate_size = shape.intermediate,
                  .num_hidden_layers = shape.layers,
                  .num_attention_heads = shape.query_heads,
                  .num_key_value_heads = shape.kv_heads,
                  .head_dim = shape.head_dim,
                  .vocab_size = shape.vocabulary,
                  .max_position_embeddings = shape.max_positions,
                  .rms_norm_eps = shortest_decimal(shape.epsilon),
                  .rope = rope_config(shape.rope)};
  file.attention_bias = shape.attention_bias;
  file.num_target_layers = shape.target_layers;
  file.block_size = shape.block_size;
  file.mask_token_id = shape.mask_token_id;
  file.target_layer_ids = shape.taps;
  for (const LayerKind kind : shape.layer_kinds) {
    file.layer_types.push_back(kind == LayerKind::sliding ? DrafterLayerType::sliding_attention
                                                          : DrafterLayerType::full_attention);
  }
  const bool slides = std::find(shape.layer_kinds.begin(), shape.layer_kinds.end(), LayerKind::sliding) !=
                      shape.layer_kinds.end();
  file.sliding_window = slides ? shape.sliding_window : 0;
  file.is_causal = slides && shape.causal_in_sliding_layers;
  return file;
}

void export_drafter(const std::filesystem::path& folder, const DrafterExport& drafter) {
  const DrafterConfigFile config = drafter_config_file(drafter.shape);
  const WeightTable table = drafter_weight_table(drafter.shape);
  std::vector<DrafterTensor> tensors;
  for (const WeightEntry& entry : table.entries) {
    const std::span<const float> values = values_of(drafter, entry);
    if (!std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); })) {
      throw Error(fmt::format("{}: weight '{}' is not finite; export an earlier checkpoint", folder.string(),
                              entry.name));
    }
    tensors.push_back({.name = entry.name, .shape = entry.dimensions(), .values = values});
  }
  SnapshotWriter writer(folder);
  write_drafter_folder(writer.folder(), config, tensors);
  atomic_write_file(writer.file("README.md"), drafter.model_card);
  if (!drafter.origin.empty()) atomic_write_file(writer.file("origin.json"), drafter.origin);
  compare(writer.folder(), config, table, drafter);
  writer.commit(SnapshotWriter::Strangers::stay);
}

}  // namespace draftsmith
