// The drafter: context features -> keys and values of every layer; draft blocks -> hidden states after the
// final norm, of the rows of the loss.
//   c = hidden_norm(fc features)                      [context_tokens, width], the same for every layer
//   x = embedding[draft_tokens]                       [draft_rows, width]
//   per layer (layer.h):  x += attention(input_norm(x), c),  x += mlp(post_attention_norm(x))
//   y = norm(x)                                       [loss_rows, width], in the head's order (last_layer.h)
// DFlash, arXiv 2602.06036, section 3. Forward, then backward, in the order of the step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/launcher.h"
#include "model/first_layer.h"
#include "model/last_layer.h"
#include "model/layer.h"
#include "model/micro_batch.h"
#include "model/rope.h"
#include "model/shape.h"
#include "model/weights.h"

namespace draftsmith {

// Saved by the context pass for its backward, and read by every layer's attention.
template <typename T>
struct DrafterContext {
  Matrix<T> projected;        // [context, width]: fc features
  Vector<float> inverse_rms;  // [context]
  Matrix<T> normed;           // [context, width]: c
  Matrix<T> key_value;        // [context, layers * 2 * kv_width]: per layer k (before its norm), then v
  Matrix<T> keys;             // [context, layers * kv_width]: after norm and rope
  std::vector<Matrix<float>> key_inverse_rms;  // [context, kv_heads] per layer
  // Of each layer's attention; layers with the same window share one. No plans: every launch makes its own.
  std::vector<Vector<std::byte>> plans;
};
template <typename T>
DrafterContext<T> carve_drafter_context(Carver& carver, const DrafterShape& shape, std::int64_t rows);

// DrafterContext::plans for batches of a budget, which blocks_forward then fills.
template <typename T>
std::vector<Vector<std::byte>> carve_drafter_plans(Carver& carver, const Launcher<T>& launch,
                                                   const DrafterShape& shape, const BatchBudget& budget);

// What backward finds of a layer's forward: all of it, or its input only, from which the layer is run once more. Both
// give the same bits; the second keeps one layer's activations instead of all layers'.
enum class Recompute { none, layer };

// Everything that a training step keeps on a device beside weights and inputs. Layers that are recomputed share all but
// their inputs.
template <typename T>
struct DrafterActivations {
  DrafterContext<T> context;
  EntryRows<T> first;  // of the first layer's entry
  std::vector<LayerSaved<T>> layers;
  LastRows<T> last;  // of the last layer's end, the output among them
};
template <typename T>
DrafterActivations<T> carve_drafter_activations(Carver& carver, const DrafterShape& shape,
                                                const BatchBudget& budget, Recompute recompute);

// Gradients that live within one backward pass.
template <typename T>
struct DrafterGradients {
  Matrix<T> output;  // [loss_rows, width]: gradient of y, made by the loss; backward works in its place
  Matrix<T> last_attention;  // [loss_rows, query_width]
  Matrix<T> residual;        // [draft_rows, width]
  LayerScratch<T> layer;
  EntryRows<T> first;   // of the first layer's entry
  Matrix<T> keys;       // [context, layers * kv_width]
  Matrix<T> key_value;  // [context, layers * 2 * kv_width]
  Matrix<T> normed;     // [context, width]
};
template <typename T>
DrafterGradients<T> carve_drafter_gradients(Carver& carver, const DrafterShape& shape,
                                            const BatchBudget& budget);

// What a backward pass reads and writes; gradients.output, the gradient of y, is where it begins. Weight gradients are
// added to. The target's features and embedding get none.
template <typename T>
struct DrafterBackward {
  const DrafterWeights<const T>& weights;
  RopeTable rope;
  Matrix<const T> features;
  const MicroBatch& batch;
  const DrafterActivations<T>& activations;
  const DrafterGradients<T>& gradients;
  Vector<const float> output_weights;  // [loss_rows]: how often each row of gradients.output counts
  const DrafterWeights<float>& weight_gradients;
  GradientWrite write;  // of matrices; the gradients of vectors are always added to
};

template <typename T>
class Drafter {
 public:
  explicit Drafter(const DrafterShape& shape, Recompute recompute = Recompute::none)
      : shape_(shape), recompute_(recompute) {}

  // Keys and values of `features` [rows, taps * width] at `positions` [rows], for every layer.
  void context_forward(Launcher<T>& launch, const DrafterWeights<const T>& weights, const RopeTable& rope,
                       Matrix<const T> features, Vector<const std::int32_t> positions,
                       const DrafterContext<T>& context) const;

  // The blocks of `batch` over a context that context_forward has filled. embedding is the target's table.
  void blocks_forward(Launcher<T>& launch, const DrafterWeights<const T>& weights, const RopeTable& rope,
                      Matrix<const T> embedding, const MicroBatch& batch,
                      const DrafterActivations<T>& activations) const;

  void backward(Launcher<T>& launch, const DrafterBackward<T>& pass) const;

  // The parts of backward, to be run in order: segments 0 to layers - 1 are those of the layers from the last to the
  // first, the final norm with the first of them; the last segment is the context's. After a layer's segment the
  // gradients of its own weights are complete, but for its rows of all_key_value and its key norm, which the context
  // adds to.
  std::int64_t backward_segments() const { return shape_.layers + 1; }
  void backward_segment(Launcher<T>& launch, const DrafterBackward<T>& pass, std::int64_t segment) const;

  const DrafterShape& shape() const { return shape_; }

 private:
  void enter_layer(Launcher<T>& launch, const DrafterWeights<const T>& weights, std::int64_t index,
                   const DrafterActivations<T>& activations) const;
  void prepare_attention(Launcher<T>& launch, const MicroBatch& batch,
                         const DrafterContext<T>& context) const;
  void layer_backward(Launcher<T>& launch, const DrafterBackward<T>& pass, std::int64_t index) const;
  void last_tail_backward(Launcher<T>& launch, const DrafterBackward<T>& pass) const;
  void context_backward(Launcher<T>& launch, const DrafterBackward<T>& pass) const;

  const DrafterShape shape_;
  const Recompute recompute_;
};

}  // namespace draftsmith
