// config.json of a drafter in the z-lab layout, as plain data. Written for old and new loaders at once:
// block_size at top level and in dflash_config, rope in both transformers spellings, is_causal always stated.
// Read from either spelling. Nothing is guessed, since a wrong guess serves at low acceptance and no loader
// complains: missing layer ids or mask token, contradictions, and the keys of other drafter variants are
// Errors that name file, key, expected and found.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/decoder_config.h"

namespace draftsmith {

enum class DrafterLayerType { full_attention, sliding_attention };

struct DrafterConfigFile {
  DecoderConfig decoder;  // vocab_size is the target's table; dtype is what the weights are stored in
  bool attention_bias = false;
  double initializer_range = 0.02;
  std::int64_t num_target_layers = 0;
  std::int64_t block_size = 0;                 // slots of a block, the anchor's among them
  std::int64_t mask_token_id = 0;              // a row of the target's table
  std::vector<std::int64_t> target_layer_ids;  // 0-based, strictly increasing, below num_target_layers - 1
  std::vector<DrafterLayerType> layer_types;   // one per layer
  std::int64_t sliding_window = 0;  // positions, the query's own among them; 0 without sliding layers
  bool is_causal = false;           // inside the block, of sliding layers; false without them

  bool operator==(const DrafterConfigFile&) const = default;
};

// `source` names the text in errors.
DrafterConfigFile parse_drafter_config(std::string_view text, const std::string& source);

// The text of config.json. The values must be such that parse_drafter_config() gives them back.
std::string write_drafter_config(const DrafterConfigFile& config);

struct DrafterTensorShape {
  std::string name;
  std::vector<std::int64_t> shape;

  bool operator==(const DrafterTensorShape&) const = default;
};

// The tensors that such a drafter has, in the order of files: fc, hidden_norm, the layers, norm.
std::vector<DrafterTensorShape> drafter_tensors(const DrafterConfigFile& config);

}  // namespace draftsmith
