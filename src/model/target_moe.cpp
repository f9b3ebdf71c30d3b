#include "model/target_moe.h"

#include <vector>

#include <fmt/core.h>

#include "base/error.h"
#include "tensor/staged.h"

namespace draftsmith {
namespace {

template <typename T>
ExpertScratch<T> first_rows(const ExpertScratch<T>& scratch, std::int64_t rows) {
  const std::int64_t places = rows * scratch.places.columns;
  return {.logits = scratch.logits.slice_rows(0, rows),
          .first = scratch.first,
          .rows = scratch.rows.slice(0, places),
          .places = scratch.places.slice_rows(0, rows),
          .weights = scratch.weights.slice_rows(0, rows),
          .gate_up = scratch.gate_up.slice_rows(0, places),
          .activated = scratch.activated.slice_rows(0, places),
          .outputs = scratch.outputs.slice_rows(0, places)};
}

// One tensor of all experts, whose matrices may be stored with rows and columns exchanged.
template <typename T>
void read_fused(const TensorReader<T>& reader, const std::string& name, std::int64_t experts,
                bool is_transposed, Matrix<T> out) {
  const std::int64_t rows = out.rows / experts, columns = out.columns;
  if (!is_transposed) {
    const std::int64_t expected[] = {experts, rows, columns};
    return reader.read(name, expected, {out.data, out.rows * columns});
  }
  const std::int64_t expected[] = {experts, columns, rows};
  if (!reader.reads_values()) return reader.read(name, expected, {});
  std::vector<T> stored(static_cast<std::size_t>(out.rows * columns));
  reader.read(name, expected, {stored.data(), out.rows * columns});
  const Staged<T> exchanged(reader.stream(), out);
  for (std::int64_t row = 0; row < out.rows; ++row) {
    const T* matrix = stored.data() + row / rows * rows * columns + row % rows;
    T* to = exchanged.host().data + row * columns;
    for (std::int64_t column = 0; column < columns; ++column) to[column] = matrix[column * rows];
  }
  exchanged.upload();
}

// Either product alone may be square; never both, so together they say how they are stored.
bool is_stored_transposed(const TensorEntry& gate_up, const TensorEntry& down, std::int64_t width,
                          const ExpertShape& shape) {
  using Sizes = std::vector<std::int64_t>;
  const std::int64_t experts = shape.count, doubled = 2 * shape.intermediate;
  if (gate_up.shape == Sizes{experts, doubled, width} &&
      down.shape == Sizes{experts, width, shape.intermediate}) {
    return false;
  }
  if (gate_up.shape == Sizes{experts, width, doubled} &&
      down.shape == Sizes{experts, shape.intermediate, width}) {
    return true;
  }
  throw Error(
      fmt::format("{} has shape {} and {} has {}; expected [{}, {}, {}] and [{}, {}, {}], or both with the "
                  "last two sizes "
                  "exchanged. Weights and config.json belong to different models",
                  gate_up.label, describe_shape(gate_up.shape), down.label, describe_shape(down.shape),
                  experts, doubled, width, experts, width, shape.intermediate));
}

}  // namespace

template <typename T>
ExpertWeights<T> carve_expert_weights(Carver& carver, const TargetShape& shape) {
  const ExpertShape& experts = shape.experts;
  return {.router = carver.matrix<T>(experts.count, shape.width),
          .gate_up = carver.matrix<T>(experts.count * 2 * experts.intermediate, shape.width),
          .down = carver.matrix<T>(experts.count * shape.width, experts.intermediate)};
}

template <typename T>
void load_expert_weights(const TensorReader<T>& reader, const std::string& prefix, const TargetShape& shape,
                         const ExpertWeights<T>& weights) {
  reader.matrix(prefix + "mlp.gate.weight", weights.router);
  const std::string experts = prefix + "mlp.experts.";
  const TensorEntry* fused = reader.store().find(experts + "gate_up_proj");
  if (fused != nullptr) {
    const TensorEntry& down = reader.store().at(experts + "down_proj");
    const bool is_transposed = is_stored_transposed(*fused, down, shape.width, shape.experts);
    read_fused(reader, experts + "gate_up_proj", shape.experts.count, is_transposed, weights.gate_up);
    read_fused(reader, experts + "down_proj", shape.experts.count, is_transposed, weights.down);
    return;
  }
  const std::int64_t rows = shape.experts.intermediate;
  for (std::int64_t expert = 0; expert < shape.experts.count; ++expert) {
    const std::string name = fmt::format("{}{}.", experts, expert);
    reader.matrix(name + "gate_proj.weight", weights.gate_up.slice_rows(2 * expert * rows, rows));
    reader.matrix(name + "up_proj.weight", weights.gate_up.slice_rows((2 * expert + 1) * rows, rows));
    reader.matrix(name + "down_proj.weight", weights.down.slice_rows(expert * shape.width, shape.width));
  }
}

template <typename T>
ExpertScratch<T> carve_expert_scratch(Carver& carver, const TargetShape& shape, std::int64_t rows) {
  const ExpertShape& experts = shape.experts;
  if (experts.count == 0) return {};
  const std::int64_t places = rows * experts.chosen;
  return {.logits = carver.matrix<float>(rows, experts.count),
          .first = carver.vector<std::int32_t>(experts.count + 1),
          .rows = carver.vector<std::int32_t>(places),
          .places = carver.matrix<std::int32_t>(rows, experts.chosen),
          .weights = carver.matrix<T>(rows, experts.chosen),
          .gate_up = carver.matrix<T>(places, 2 * experts.intermediate),
          .activated = carver.matrix<T>(places, experts.intermediate),
          .outputs = carver.matrix<T>(places, shape.width)};
}

template <typename T>
void experts_forward(Launcher<T>& launch, const ExpertShape& shape, const ExpertWeights<T>& weights,
                     const ExpertScratch<T>& whole_scratch, Matrix<const T> input, Matrix<T> output) {
  const ExpertScratch<T> scratch = first_rows(whole_scratch, input.rows);
  launch(Matmul<T, float>{.left = input, .right = weights.router, .output = scratch.logits});
  launch(RouteExperts<T>{.logits = scratch.logits,
                         .normalise = shape.normalise,
                         .first = scratch.first,
                         .rows = scratch.rows,
                         .places = scratch.places,
                         .weights = scratch.weights});
  launch(ExpertProducts<T>{.input = input,
                           .rows = scratch.rows,
                           .first = scratch.first,
                           .weights = weights.gate_up,
                           .output = scratch.gate_up});
  launch(SwigluForward<T>{.gate_up = scratch.gate_up, .output = scratch.activated});
  launch(ExpertProducts<T>{.input = scratch.activated,
                           .first = scratch.first,
                           .weights = weights.down,
                           .output = scratch.outputs});
  launch(CombineExperts<T>{
      .input = scratch.outputs, .places = scratch.places, .weights = scratch.weights, .output = output});
}

#define DRAFTSMITH_INSTANTIATE(T)                                                                      \
  template ExpertWeights<T> carve_expert_weights<T>(Carver&, const TargetShape&);                      \
  template void load_expert_weights<T>(const TensorReader<T>&, const std::string&, const TargetShape&, \
                                       const ExpertWeights<T>&);                                       \
  template ExpertScratch<T> carve_expert_scratch<T>(Carver&, const TargetShape&, std::int64_t);        \
  template void experts_forward<T>(Launcher<T>&, const ExpertShape&, const ExpertWeights<T>&,          \
                                   const ExpertScratch<T>&, Matrix<const T>, Matrix<T>);
DRAFTSMITH_INSTANTIATE(float)
DRAFTSMITH_INSTANTIATE(bf16)
#undef DRAFTSMITH_INSTANTIATE

}  // namespace draftsmith
