// The mixture of experts that takes the place of a target layer's feed-forward (Qwen3-MoE): its weights, what
// it needs beside them, and its forward (kernels/moe.h has the formula).
#pragma once

#include <string>

#include "kernels/launcher.h"
#include "model/shape.h"
#include "model/tensor_reader.h"
#include "tensor/carver.h"

namespace draftsmith {

template <typename T>
struct ExpertWeights {
  Matrix<T> router;   // [experts, width]; no rows in a dense layer
  Matrix<T> gate_up;  // [experts * 2 * intermediate, width]: of each expert gate, then up
  Matrix<T> down;     // [experts * width, intermediate]
};
template <typename T>
ExpertWeights<T> carve_expert_weights(Carver& carver, const TargetShape& shape);

// `prefix` is the layer's, as in "model.layers.0.". Reads one tensor an expert and projection, or the fused
// forms mlp.experts.gate_up_proj [experts, 2 * intermediate, width] and mlp.experts.down_proj
// [experts, width, intermediate], or both of these with the last two sizes exchanged. Throws Error.
template <typename T>
void load_expert_weights(const TensorReader<T>& reader, const std::string& prefix, const TargetShape& shape,
                         const ExpertWeights<T>& weights);

// Of one pass; reused by every layer. A place is a row at one of its experts.
template <typename T>
struct ExpertScratch {
  Matrix<float> logits;         // [rows, experts]; no rows in a dense model
  Vector<std::int32_t> first;   // [experts + 1]
  Vector<std::int32_t> rows;    // [rows * chosen]
  Matrix<std::int32_t> places;  // [rows, chosen]
  Matrix<T> weights;            // [rows, chosen]
  Matrix<T> gate_up;            // [rows * chosen, 2 * intermediate]
  Matrix<T> activated;          // [rows * chosen, intermediate]
  Matrix<T> outputs;            // [rows * chosen, width]
};
template <typename T>
ExpertScratch<T> carve_expert_scratch(Carver& carver, const TargetShape& shape, std::int64_t rows);

// input [rows, width] -> output [rows, width]; scratch has room for at least as many rows.
template <typename T>
void experts_forward(Launcher<T>& launch, const ExpertShape& shape, const ExpertWeights<T>& weights,
                     const ExpertScratch<T>& scratch, Matrix<const T> input, Matrix<T> output);

}  // namespace draftsmith
