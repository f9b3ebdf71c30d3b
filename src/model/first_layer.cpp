#include "model/first_layer.h"

namespace draftsmith {

template <typename T>
void FirstLayerEntry<T>::forward(Launcher<T>& launch, const LayerWeights<const T>& weights,
                                 const LayerSaved<T>& saved, const EntryRows<T>& rows) const {
  const std::int64_t block_size = shape_.block_size, blocks = saved.input.rows / block_size;
  const Matrix<T> anchors{saved.input.data, blocks, saved.input.columns, saved.input.stride * block_size};
  launch(CopyRows<T>{.input = anchors, .output = rows.input.slice_rows(0, blocks)});
  for (const std::int64_t row : {blocks, blocks + 1}) {
    launch(CopyRows<T>{.input = saved.input.slice_rows(1, 1), .output = rows.input.slice_rows(row, 1)});
  }
  norm_entry(launch, weights, rows, shape_.epsilon);
  project_entry(launch, weights, rows);
  launch(SpreadBlockRows<T>{.distinct = rows.query, .block_size = block_size, .output = saved.query});
  launch(SpreadBlockRows<T>{.distinct = rows.key_value, .block_size = block_size, .output = saved.key_value});
}

template <typename T>
void FirstLayerEntry<T>::backward(Launcher<T>& launch, const LayerWeights<const T>& weights,
                                  const LayerScratch<T>& scratch, const EntryRows<T>& rows,
                                  const EntryRows<T>& gradients, const LayerWeights<float>& weight_gradients,
                                  GradientWrite write) const {
  const std::int64_t block_size = shape_.block_size;
  launch(FoldBlockRows<T>{.input = scratch.query, .block_size = block_size, .distinct = gradients.query});
  launch(FoldBlockRows<T>{
      .input = scratch.key_value, .block_size = block_size, .distinct = gradients.key_value});
  entry_backward<T>(launch, {.weights = weights,
                             .rows = rows,
                             .gradients = gradients,
                             .grad_residual = {},
                             .weight_gradients = weight_gradients,
                             .write = write});
}

template class FirstLayerEntry<float>;
template class FirstLayerEntry<bf16>;

}  // namespace draftsmith
