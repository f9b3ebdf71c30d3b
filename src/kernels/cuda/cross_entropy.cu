// One block of threads a row (running_softmax.cuh). With the gradient, bf16 rows go to the kernel that reads them once
// (cross_entropy_cluster.cu) where the card has clusters and the row fits them.
#include <type_traits>

#include "kernels/cross_entropy.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/running_softmax.cuh"

namespace draftsmith::cuda {

namespace {

// A row of which nothing is above -infinity has its maximum everywhere: the lowest index is 0.
__device__ std::int32_t place_of(const Running& running) {
  return running.maximum == -kInfinity ? 0 : running.column;
}

template <typename T, int count>
__global__ void __launch_bounds__(kRowThreads)
    cross_entropy_forward_kernel(Matrix<const T> logits, const std::int32_t* labels, float* nll,
                                 float* log_sum_exp, std::int32_t* predictions) {
  const std::int64_t row = blockIdx.x;
  const std::int32_t label = labels[row];
  if (label >= logits.columns) __trap();  // a label is a token of the vocabulary
  if (label < 0) {
    if (threadIdx.x != 0) return;
    nll[row] = 0;
    log_sum_exp[row] = 0;
    predictions[row] = -1;
    return;
  }
  const Running running = merge_block(walk_row<count, true>(logits.row(row), logits.columns, 1), 1);
  if (threadIdx.x != 0) return;
  const float normalizer = running.maximum + logf(running.sum);
  predictions[row] = place_of(running);
  log_sum_exp[row] = normalizer;
  nll[row] = normalizer - to_float(logits(row, label));
}

template <int count>
__global__ void __launch_bounds__(kRowThreads)
    argmax_rows_kernel(Matrix<const float> logits, std::int32_t* predictions) {
  const std::int64_t row = blockIdx.x;
  const Running running = merge_block(walk_row<count, false>(logits.row(row), logits.columns, 1), 1);
  if (threadIdx.x == 0) predictions[row] = place_of(running);
}

// The second reading finds what of the row is still in cache.
template <typename T, int count>
__global__ void __launch_bounds__(kRowThreads)
    cross_entropy_with_gradient_kernel(CrossEntropyWithGradient<T> arguments) {
  const std::int64_t row = blockIdx.x, columns = arguments.logits.columns;
  const std::int32_t label = arguments.labels.data[row];
  if (label >= columns) __trap();  // a label is a token of the vocabulary
  T* logits = arguments.logits.row(row);
  Running running;
  float normalizer = 0, at_label = 0;
  if (label >= 0) {
    at_label = to_float(logits[label]);
    running = merge_block(walk_row<count, true>(logits, columns, 1), 1);  // behind it nobody reads others' entries
    normalizer = running.maximum + logf(running.sum);
  }
  if (threadIdx.x == 0) {
    arguments.predictions.data[row] = label < 0 ? -1 : place_of(running);
    arguments.nll.data[row] = normalizer - at_label;
  }
  for (std::int64_t column = static_cast<std::int64_t>(threadIdx.x) * count; column < columns;
       column += static_cast<std::int64_t>(kRowThreads) * count) {
    float values[count];
    load(logits + column, values);
#pragma unroll
    for (int i = 0; i < count; ++i) {
      values[i] = label < 0 ? 0.0f : expf(values[i] - normalizer) - (column + i == label ? 1.0f : 0.0f);
    }
    store(logits + column, values);
  }
}

}  // namespace

template <typename T>
void cross_entropy_forward(const Stream& stream, const CrossEntropyForward<T>& arguments) {
  const auto& [logits, labels, nll, log_sum_exp, predictions] = arguments;
  DRAFTSMITH_CHECK(labels.size == logits.rows && nll.size == logits.rows && log_sum_exp.size == logits.rows &&
                       predictions.size == logits.rows,
                   "one label and one result for each row");
  if (logits.rows == 0) return;
  const auto launch = [&]<int count>() {
    cross_entropy_forward_kernel<T, count>
        <<<grid_of(arguments.logits.rows), kRowThreads, 0, native(stream)>>>(
            arguments.logits, arguments.labels.data, arguments.nll.data, arguments.log_sum_exp.data,
            arguments.predictions.data);
  };
  is_wide_row(logits) ? launch.template operator()<kLogitVector<T>>() : launch.template operator()<1>();
  check_launch("cross entropy");
}

template <typename T>
void cross_entropy_with_gradient(const Stream& stream, const CrossEntropyWithGradient<T>& arguments) {
  const auto& [logits, labels, nll, predictions] = arguments;
  DRAFTSMITH_CHECK(
      labels.size == logits.rows && nll.size == logits.rows && predictions.size == logits.rows,
      "one label and one result for each row");
  if (logits.rows == 0) return;
  if constexpr (std::is_same_v<T, bf16>) {
    if (cross_entropy_fits_cluster(*stream.device, logits)) return cross_entropy_in_clusters(stream, arguments);
  }
  const auto launch = [&]<int count>() {
    cross_entropy_with_gradient_kernel<T, count>
        <<<grid_of(arguments.logits.rows), kRowThreads, 0, native(stream)>>>(arguments);
  };
  is_wide(logits) ? launch.template operator()<kWide<T>>() : launch.template operator()<1>();
  check_launch("cross entropy with its gradient");
}

template <typename T>
void argmax_rows(const Stream& stream, const ArgmaxRows<T>& arguments) {
  const auto& [logits, predictions] = arguments;
  DRAFTSMITH_CHECK(predictions.size == logits.rows, "one prediction for each row");
  if (logits.rows == 0) return;
  if (is_wide_row(logits)) {
    argmax_rows_kernel<kLogitVector<float>>
        <<<grid_of(logits.rows), kRowThreads, 0, native(stream)>>>(logits, predictions.data);
  } else {
    argmax_rows_kernel<1><<<grid_of(logits.rows), kRowThreads, 0, native(stream)>>>(logits, predictions.data);
  }
  check_launch("argmax");
}

template void cross_entropy_forward(const Stream&, const CrossEntropyForward<float>&);
template void cross_entropy_forward(const Stream&, const CrossEntropyForward<bf16>&);
template void cross_entropy_with_gradient(const Stream&, const CrossEntropyWithGradient<float>&);
template void cross_entropy_with_gradient(const Stream&, const CrossEntropyWithGradient<bf16>&);
template void argmax_rows(const Stream&, const ArgmaxRows<float>&);
template void argmax_rows(const Stream&, const ArgmaxRows<bf16>&);

}  // namespace draftsmith::cuda
