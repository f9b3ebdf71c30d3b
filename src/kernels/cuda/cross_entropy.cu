// One block of threads a row; forward reads it once (running_softmax.cuh). Backward may work in place: every thread
// reads exactly the elements that it writes, as one vector.
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

template <typename T, int count>
__global__ void cross_entropy_backward_kernel(CrossEntropyBackward<T> arguments) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.y) * kRowThreads + threadIdx.x) * count;
  if (column >= arguments.logits.columns) return;
  float values[count];
  const std::int32_t label = arguments.labels.data[row];
  if (label < 0) {
#pragma unroll
    for (int i = 0; i < count; ++i) values[i] = 0;
  } else {
    const float weight = arguments.weights.data[row], normalizer = arguments.log_sum_exp.data[row];
    load(arguments.logits.row(row) + column, values);
#pragma unroll
    for (int i = 0; i < count; ++i) {
      values[i] = weight * (expf(values[i] - normalizer) - (column + i == label ? 1.0f : 0.0f));
    }
  }
  store(arguments.grad_logits.row(row) + column, values);
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
void cross_entropy_backward(const Stream& stream, const CrossEntropyBackward<T>& arguments) {
  const auto& [logits, labels, log_sum_exp, weights, grad_logits] = arguments;
  DRAFTSMITH_CHECK(labels.size == logits.rows && log_sum_exp.size == logits.rows &&
                       weights.size == logits.rows && grad_logits.rows == logits.rows &&
                       grad_logits.columns == logits.columns,
                   "one label and one weight for each row, gradients like the logits");
  if (logits.rows == 0) return;
  const auto launch = [&]<int count>() {
    const dim3 grid(grid_of(logits.rows),
                    static_cast<unsigned>(div_ceil(logits.columns, kRowThreads * count)));
    cross_entropy_backward_kernel<T, count><<<grid, kRowThreads, 0, native(stream)>>>(arguments);
  };
  const bool wide = is_wide(grad_logits) && is_wide(logits);
  wide ? launch.template operator()<kWide<T>>() : launch.template operator()<1>();
  check_launch("the gradient of cross entropy");
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
template void cross_entropy_backward(const Stream&, const CrossEntropyBackward<float>&);
template void cross_entropy_backward(const Stream&, const CrossEntropyBackward<bf16>&);
template void argmax_rows(const Stream&, const ArgmaxRows<float>&);
template void argmax_rows(const Stream&, const ArgmaxRows<bf16>&);

}  // namespace draftsmith::cuda
