// The one table of the drafter's trained weights: name, shape, place, first value, decay. Loading, saving,
// initialising, decaying, exchanging and updating all walk it. The weights lie in one flat range, so AdamW is
// one pass; what a GPU multiplies at once lies side by side: k and v of all layers in one matrix, gate over
// up.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/shape.h"
#include "tensor/tensor.h"

namespace draftsmith {

enum class InitialValue { normal, ones, zeros };

struct WeightEntry {
  std::string name;  // as in the published checkpoint layout, without a prefix
  std::int64_t rows = 0;
  std::int64_t columns = 0;  // 0: a vector of `rows` entries
  std::int64_t offset = 0;   // in the flat range
  InitialValue initial = InitialValue::normal;

  std::int64_t size() const { return columns == 0 ? rows : rows * columns; }
  std::vector<std::int64_t> dimensions() const {
    return columns == 0 ? std::vector<std::int64_t>{rows} : std::vector<std::int64_t>{rows, columns};
  }
};

struct WeightTable {
  std::vector<WeightEntry> entries;
  std::int64_t size = 0;     // of the flat range; gaps that align matrices are 0 and stay 0
  std::int64_t decayed = 0;  // matrices come first and decay; norms and biases follow and do not

  const WeightEntry& find(const std::string& name) const;  // a failed check when there is none
};

WeightTable drafter_weight_table(const DrafterShape& shape);

// A part of the flat range.
struct WeightRange {
  std::int64_t begin = 0, size = 0;
};
// Whose gradients are complete after each segment of backward (Drafter::backward_segment) and not before: the matrices
// of a layer each, from the last layer to the first; then fc, all keys and values, and all that does not decay.
// Together they are the whole range.
std::vector<std::vector<WeightRange>> completed_ranges(const DrafterShape& shape, const WeightTable& table);

// Views into a flat range of weights (T), gradients or masters (float).
template <typename E>
struct LayerWeights {
  Vector<E> input_norm, post_attention_norm;  // [width]
  Vector<E> query_norm, key_norm;             // [head_dim]
  Matrix<E> query;                            // [query_width, width]
  Matrix<E> key_value;                        // [2 * kv_width, width]: k, then v; rows of all_key_value
  Matrix<E> output;                           // [width, query_width]
  Matrix<E> gate_up;                          // [2 * intermediate, width]: gate, then up
  Matrix<E> down;                             // [width, intermediate]
  Vector<E> query_bias, key_value_bias, output_bias;  // empty without attention_bias
};

template <typename E>
struct DrafterWeights {
  Matrix<E> fc;                  // [width, taps * width]
  Matrix<E> all_key_value;       // [layers * 2 * kv_width, width]
  Vector<E> all_key_value_bias;  // [layers * 2 * kv_width], or empty
  Vector<E> hidden_norm, norm;   // [width]
  std::vector<LayerWeights<E>> layers;
};

template <typename E>
DrafterWeights<E> view_weights(const DrafterShape& shape, const WeightTable& table, Vector<E> flat);

// First values: normal with deviation 0.02 for matrices, 1 for norms, 0 for biases; a pure function of the
// seed and the entry's place in the table.
void initialise_weights(const WeightTable& table, std::uint64_t seed, Vector<float> flat);

}  // namespace draftsmith
