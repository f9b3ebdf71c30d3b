// One block of threads a row. Forward reads both rows for their sums of exponentials, then again for the
// divergence. Backward may work in place: every thread reads exactly the elements that it writes, as one vector.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/running_softmax.cuh"
#include "kernels/distillation.h"

namespace draftsmith::cuda {

namespace {

template <int count, typename T>
__device__ float softened_log_sum_exp(const T* row, std::int64_t columns, float inverse_temperature) {
  const Running running =
      merge_block(walk_row<count, true>(row, columns, inverse_temperature), inverse_temperature);
  return running.maximum * inverse_temperature + logf(running.sum);
}

template <typename T, int count>
__global__ void __launch_bounds__(kRowThreads)
    distillation_forward_kernel(DistillationForward<T> arguments, float inverse) {
  __shared__ float shared[32];
  const std::int64_t row = blockIdx.x, columns = arguments.logits.columns;
  float divergence = 0, s_norm = 0, t_norm = 0;
  if (arguments.labels.data[row] >= 0) {
    const T *s = arguments.logits.row(row), *t = arguments.teacher_logits.row(row);
    s_norm = softened_log_sum_exp<count>(s, columns, inverse);
    t_norm = softened_log_sum_exp<count>(t, columns, inverse);
    float sum = 0;
    for (std::int64_t column = static_cast<std::int64_t>(threadIdx.x) * count; column < columns;
         column += static_cast<std::int64_t>(kRowThreads) * count) {
      float draft[count], teacher[count];
      load(s + column, draft);
      load(t + column, teacher);
#pragma unroll
      for (int i = 0; i < count; ++i) {
        const float log_t = teacher[i] * inverse - t_norm, log_s = draft[i] * inverse - s_norm;
        const float p = expf(log_t);
        sum += p == 0 ? 0.0f : p * (log_t - log_s);
      }
    }
    divergence = block_sum(sum, shared);
  }
  if (threadIdx.x != 0) return;
  arguments.divergence.data[row] = divergence;
  arguments.log_sum_exp.data[row] = s_norm;
  arguments.teacher_log_sum_exp.data[row] = t_norm;
}

template <typename T, int count>
__global__ void distillation_backward_kernel(DistillationBackward<T> arguments, float inverse) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.y) * kRowThreads + threadIdx.x) * count;
  if (column >= arguments.logits.columns) return;
  float gradient[count] = {};
  const std::int32_t label = arguments.labels.data[row];
  if (label >= 0) {
    float draft[count], teacher[count];
    load(arguments.logits.row(row) + column, draft);
    load(arguments.teacher_logits.row(row) + column, teacher);
    const float normalizer = arguments.hard_log_sum_exp.data[row];
    const float hard = 1 - arguments.share, soft = arguments.share * arguments.temperature;
    const float s_norm = arguments.log_sum_exp.data[row], t_norm = arguments.teacher_log_sum_exp.data[row];
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const float onehot = column + i == label ? 1.0f : 0.0f;
      gradient[i] = hard * (expf(draft[i] - normalizer) - onehot) +
                    soft * (expf(draft[i] * inverse - s_norm) - expf(teacher[i] * inverse - t_norm));
    }
  }
  store(arguments.grad_logits.row(row) + column, gradient);
}

}  // namespace

template <typename T>
void distillation_forward(const Stream& stream, const DistillationForward<T>& arguments) {
  const std::int64_t rows = arguments.logits.rows, vocabulary = arguments.logits.columns;
  DRAFTSMITH_CHECK(arguments.teacher_logits.rows == rows && arguments.teacher_logits.columns == vocabulary &&
                       arguments.labels.size == rows && arguments.divergence.size == rows &&
                       arguments.log_sum_exp.size == rows && arguments.teacher_log_sum_exp.size == rows,
                   "teacher and draft have logits of one shape, and one of each result for every row");
  if (rows == 0) return;
  const float inverse = 1.0f / arguments.temperature;
  if (is_wide_row(arguments.logits) && is_wide_row(arguments.teacher_logits)) {
    distillation_forward_kernel<T, kLogitVector<T>>
        <<<grid_of(rows), kRowThreads, 0, native(stream)>>>(arguments, inverse);
  } else {
    distillation_forward_kernel<T, 1><<<grid_of(rows), kRowThreads, 0, native(stream)>>>(arguments, inverse);
  }
  check_launch("distillation");
}

template <typename T>
void distillation_backward(const Stream& stream, const DistillationBackward<T>& arguments) {
  const std::int64_t rows = arguments.logits.rows, vocabulary = arguments.logits.columns;
  DRAFTSMITH_CHECK(arguments.grad_logits.rows == rows && arguments.grad_logits.columns == vocabulary,
                   "gradients are like the logits");
  if (rows == 0) return;
  const float inverse = 1.0f / arguments.temperature;
  const auto launch = [&]<int count>() {
    const dim3 grid(grid_of(rows), static_cast<unsigned>(div_ceil(vocabulary, kRowThreads * count)));
    distillation_backward_kernel<T, count><<<grid, kRowThreads, 0, native(stream)>>>(arguments, inverse);
  };
  const bool wide =
      is_wide(arguments.grad_logits) && is_wide(arguments.logits) && is_wide(arguments.teacher_logits);
  wide ? launch.template operator()<kWide<T>>() : launch.template operator()<1>();
  check_launch("the gradient of distillation");
}

template void distillation_forward(const Stream&, const DistillationForward<float>&);
template void distillation_forward(const Stream&, const DistillationForward<bf16>&);
template void distillation_backward(const Stream&, const DistillationBackward<float>&);
template void distillation_backward(const Stream&, const DistillationBackward<bf16>&);

}  // namespace draftsmith::cuda
