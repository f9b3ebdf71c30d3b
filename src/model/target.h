// The frozen target: Qwen3, Qwen3-MoE, Qwen2 / 2.5 and Llama decoders. Weights are loaded
// once per device; a pass writes keys and values into rows of a store and hands out the raw residual after
// the tapped layers, and logits where they are asked for. Layers above the last tap are not computed unless
// logits are wanted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "kernels/launcher.h"
#include "model/rope.h"
#include "model/shape.h"
#include "model/target_moe.h"
#include "tensor/carver.h"

namespace draftsmith {

// The target's embedding table and head: what a drafter shares with its target. Both [vocabulary, width].
template <typename T>
struct VocabularyTables {
  Matrix<T> embedding;
  Matrix<T> head;  // the embedding itself when tied
};

template <typename T>
VocabularyTables<T> carve_vocabulary_tables(Carver& carver, const TargetShape& shape);

template <typename T>
struct TargetLayerWeights {
  Vector<T> input_norm, post_attention_norm;  // [width]
  Vector<T> query_norm, key_norm;             // [head_dim], empty without head_norm
  Matrix<T> query_key_value;                  // [query_width + 2 * kv_width, width]: q, k, v
  Vector<T> query_key_value_bias;             // [query_width + 2 * kv_width], or empty
  Matrix<T> output;                           // [width, query_width]
  Vector<T> output_bias;                      // [width], or empty
  Matrix<T> gate_up;                          // [2 * intermediate, width], or empty with experts
  Matrix<T> down;                             // [width, intermediate], or empty with experts
  ExpertWeights<T> experts;                   // empty in a dense layer
};

template <typename T>
struct TargetWeights {
  VocabularyTables<T> tables;
  std::vector<TargetLayerWeights<T>> layers;  // the first `layers` of the target, as carved
  Vector<T> norm;                             // [width]
};

// Only the first `layers` layers get room (features need no more than the last tap's; logits need all).
template <typename T>
TargetWeights<T> carve_target_weights(Carver& carver, const TargetShape& shape, std::int64_t layers);

// Read from a Hugging Face folder, converted to T by rounding to nearest even. Throw Error naming file and
// tensor for a missing tensor, a wrong shape or type, or values that are not finite. Block until the stream's
// device has them.
template <typename T>
void load_vocabulary_tables(const Stream& stream, const std::filesystem::path& folder,
                            const TargetShape& shape, const VocabularyTables<T>& tables);
// Throws Error where load_target_weights() would for the first `layers` layers of this folder, but for values: reads
// headers alone, takes no memory.
void check_target_weights(const std::filesystem::path& folder, const TargetShape& shape, std::int64_t layers);

template <typename T>
void load_target_weights(const Stream& stream, const std::filesystem::path& folder, const TargetShape& shape,
                         const TargetWeights<T>& weights);

// Keys (after rope) and values of every row that later rows may see, per layer. A packed prefill needs them
// only within a layer and passes the same matrix for all; decoding keeps one per layer.
template <typename T>
struct KeyValueStore {
  std::vector<Matrix<T>> keys;    // [capacity, kv_width] per layer
  std::vector<Matrix<T>> values;  // [capacity, kv_width] per layer
};

// Activations of one pass of at most `rows` rows; reused by every layer.
template <typename T>
struct TargetScratch {
  Matrix<T> residual, normed;  // [rows, width]
  Matrix<T> query_key_value;   // [rows, query_width + 2 * kv_width]
  Matrix<T> attention;         // [rows, query_width]
  Matrix<T> projected;         // [rows, width]: output of o and of down
  Matrix<T> gate_up;           // [rows, 2 * intermediate]
  Matrix<T> activated;         // [rows, intermediate]
  ExpertScratch<T> experts;    // empty in a dense model
};
template <typename T>
TargetScratch<T> carve_target_scratch(Carver& carver, const TargetShape& shape, std::int64_t rows);

template <typename T>
struct TargetPass {
  Vector<const std::int32_t> tokens;     // [rows]
  Vector<const std::int32_t> positions;  // [rows]
  ContextIntervals intervals;            // [rows]: rows of the store that each row sees, its own among them
  Vector<std::byte> plan;                // of the attention of every layer; empty: each launch makes its own
  std::int64_t first_row = 0;            // the pass's rows are written to the store from here
  const KeyValueStore<T>* store = nullptr;
  Matrix<T> features;      // [rows, taps * width], or empty
  Matrix<float> logits;    // [rows, vocabulary], or empty
  Matrix<T> final_hidden;  // [rows, width]: after the final norm, or empty
};

// TargetPass::plan for passes of so many rows that see each other alone, which forward() then fills.
template <typename T>
Vector<std::byte> carve_target_plan(Carver& carver, const Launcher<T>& launch, const TargetShape& shape,
                                    std::int64_t rows);

template <typename T>
class Target {
 public:
  Target(const TargetShape& shape, std::vector<std::int64_t> taps) : shape_(shape), taps_(std::move(taps)) {}

  // Runs the layers that the outputs asked for need. Row counts of one pass are those of its views; scratch
  // has at least as many. Never blocks on the host.
  void forward(Launcher<T>& launch, const TargetWeights<T>& weights, const RopeTable& rope,
               const TargetScratch<T>& scratch, const TargetPass<T>& pass) const;

  const TargetShape& shape() const { return shape_; }

 private:
  void attention(Launcher<T>& launch, const TargetLayerWeights<T>& layer, const RopeTable& rope,
                 const TargetScratch<T>& scratch, const TargetPass<T>& pass, std::int64_t index) const;
  void feed_forward(Launcher<T>& launch, const TargetLayerWeights<T>& layer,
                    const TargetScratch<T>& scratch) const;

  const TargetShape shape_;
  const std::vector<std::int64_t> taps_;  // ascending; may be empty
};

}  // namespace draftsmith
