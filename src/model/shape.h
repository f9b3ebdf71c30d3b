// The shapes of target and drafter: plain numbers, read from config.json and options once and checked here.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace draftsmith {

// Width of a head, of target and drafter: what the attention kernels keep per query.
inline constexpr std::int64_t kLargestHead = 256;

enum class LayerKind { full, sliding };

enum class RopeScaling { none, linear, llama3, yarn };

// model/rope.h has the formulas.
struct RopeShape {
  double theta = 10000.0;
  RopeScaling scaling = RopeScaling::none;
  double factor = 1;                                           // linear, llama3, yarn
  double low_frequency_factor = 1, high_frequency_factor = 4;  // llama3
  std::int64_t original_positions = 0;                         // llama3, yarn
  double beta_fast = 32, beta_slow = 1;                        // yarn
  bool truncate = true;                                        // yarn
  double attention_factor = 1;                                 // multiplies cosines and sines

  bool operator==(const RopeShape&) const = default;
};

// Feed-forwards that are mixtures of experts.
struct ExpertShape {
  std::int64_t count = 0;         // 0: the model is dense
  std::int64_t chosen = 0;        // experts that a row goes through
  std::int64_t intermediate = 0;  // of each expert
  bool normalise = false;         // the weights of the chosen ones sum to 1
};

// A frozen decoder: embedding, pre-norm layers of grouped-query attention and SwiGLU or experts, final norm,
// head.
struct TargetShape {
  std::string family;  // qwen3, qwen3_moe, qwen2, llama: config.json's model_type
  std::int64_t layers = 0, width = 0, intermediate = 0;
  std::int64_t query_heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t vocabulary = 0;  // rows of the table, padding rows too
  std::int64_t max_positions = 0;
  float epsilon = 1e-6f;
  RopeShape rope;
  bool tied_head = false;    // the head is the embedding table
  bool qkv_bias = false;     // q, k and v have biases
  bool output_bias = false;  // o has one
  bool head_norm = false;    // q and k are normed per head before rope
  ExpertShape experts;
  std::vector<bool> sparse_layers;  // which layers have experts; empty: none

  bool sparse(std::int64_t layer) const {
    return !sparse_layers.empty() && sparse_layers[static_cast<std::size_t>(layer)];
  }
  bool any_dense() const {
    return sparse_layers.empty() || std::count(sparse_layers.begin(), sparse_layers.end(), false) > 0;
  }
  std::int64_t query_width() const { return query_heads * head_dim; }
  std::int64_t kv_width() const { return kv_heads * head_dim; }
};

struct DrafterShape {
  std::int64_t layers = 0, width = 0, intermediate = 0;
  std::int64_t query_heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t vocabulary = 0;  // the target's table
  std::int64_t max_positions = 0;
  std::int64_t target_layers = 0;
  std::int64_t block_size = 0;     // slots of a block, the anchor's among them
  std::vector<std::int64_t> taps;  // 0-based target layers whose raw outputs are read, strictly increasing
  std::int64_t mask_token_id = 0;
  float epsilon = 1e-6f;
  RopeShape rope;
  bool attention_bias = false;         // q, k, v and o
  std::vector<LayerKind> layer_kinds;  // one per layer
  std::int64_t sliding_window =
      0;  // positions a sliding layer sees, the query's own among them; 0: no such layer
  bool causal_in_sliding_layers = true;  // config.json's is_causal

  std::int64_t query_width() const { return query_heads * head_dim; }
  std::int64_t kv_width() const { return kv_heads * head_dim; }
  std::int64_t feature_width() const { return static_cast<std::int64_t>(taps.size()) * width; }
  bool sliding(std::int64_t layer) const { return layer_kinds[layer] == LayerKind::sliding; }
};

// The published rule for tapped layers: count 1 gives the middle one, more are spread evenly over 1 .. layers
// - 3, rounded half to even as Python does (docs/dflash.md, "Taps"). Where a small target has too few layers for that,
// they are spread over all that can be tapped, 0 .. layers - 2. Throws Error when those are fewer than `count`.
std::vector<std::int64_t> default_taps(std::int64_t target_layers, std::int64_t count);

// Why a drafter's rope is not scaled as Llama 3's is.
inline constexpr std::string_view kNoLlama3Drafter =
    "rope scaling llama3 cannot be served with a drafter: loaders of the z-lab format take the drafter for a "
    "Qwen3 model. Leave drafter.rope.scaling out, which suits drafters of llama3-scaled targets, or choose "
    "yarn";

// Throws Error for any value that cannot be trained or served: taps that are not strictly increasing in
// 0 .. target_layers - 2, a block of fewer than 2 or more than 32 slots, heads that do not divide, a window
// smaller than the block, a mask token outside the table, rope scaled as Llama 3's is.
void check_drafter_shape(const DrafterShape& shape);

}  // namespace draftsmith
