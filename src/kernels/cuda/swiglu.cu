#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/vector.cuh"
#include "kernels/swiglu.h"

namespace draftsmith::cuda {

namespace {

constexpr int kThreads = 256;

template <typename T, int count>
__global__ void swiglu_forward_kernel(SwigluForward<T> arguments) {
  const std::int64_t row = blockIdx.x, width = arguments.output.columns;
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x) * count;
  if (column >= width) return;
  float gate[count], up[count];
  load(arguments.gate_up.row(row) + column, gate);
  load(arguments.gate_up.row(row) + width + column, up);
#pragma unroll
  for (int i = 0; i < count; ++i) gate[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
  store(arguments.output.row(row) + column, gate);
}

// A thread reads all that it needs of the row before it writes, so the gradient may replace gate and up.
template <typename T, int count>
__global__ void swiglu_backward_kernel(SwigluBackward<T> arguments) {
  const std::int64_t row = blockIdx.x, width = arguments.grad_output.columns;
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x) * count;
  if (column >= width) return;
  float gate[count], up[count], grad[count];
  load(arguments.gate_up.row(row) + column, gate);
  load(arguments.gate_up.row(row) + width + column, up);
  load(arguments.grad_output.row(row) + column, grad);
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const float s = 1.0f / (1.0f + expf(-gate[i]));
    const float grad_gate = grad[i] * up[i] * s * (1.0f + gate[i] * (1.0f - s));
    up[i] = grad[i] * gate[i] * s;
    gate[i] = grad_gate;
  }
  store(arguments.grad_gate_up.row(row) + column, gate);
  store(arguments.grad_gate_up.row(row) + width + column, up);
}

dim3 grid_for(std::int64_t rows, std::int64_t width, int count) {
  return dim3(grid_of(rows), static_cast<unsigned>(div_ceil(width, kThreads * count)));
}

}  // namespace

template <typename T>
void swiglu_forward(const Stream& stream, const SwigluForward<T>& arguments) {
  const auto& [gate_up, output] = arguments;
  DRAFTSMITH_CHECK(gate_up.rows == output.rows && gate_up.columns == 2 * output.columns,
                   "gate and up side by side");
  if (output.rows == 0) return;
  const auto launch = [&]<int count>() {
    swiglu_forward_kernel<T, count>
        <<<grid_for(output.rows, output.columns, count), kThreads, 0, native(stream)>>>(arguments);
  };
  const bool wide = is_wide(output) && is_wide(gate_up.data, gate_up.stride, output.columns);
  wide ? launch.template operator()<kWide<T>>() : launch.template operator()<1>();
  check_launch("SwiGLU");
}

template <typename T>
void swiglu_backward(const Stream& stream, const SwigluBackward<T>& arguments) {
  const auto& [gate_up, grad_output, grad_gate_up] = arguments;
  const std::int64_t rows = grad_output.rows, width = grad_output.columns;
  DRAFTSMITH_CHECK(gate_up.rows == rows && gate_up.columns == 2 * width && grad_gate_up.rows == rows &&
                       grad_gate_up.columns == 2 * width,
                   "gate and up side by side, and their gradients");
  if (rows == 0) return;
  const auto launch = [&]<int count>() {
    swiglu_backward_kernel<T, count>
        <<<grid_for(rows, width, count), kThreads, 0, native(stream)>>>(arguments);
  };
  const bool wide = is_wide(grad_output) && is_wide(gate_up.data, gate_up.stride, width) &&
                    is_wide(grad_gate_up.data, grad_gate_up.stride, width);
  wide ? launch.template operator()<kWide<T>>() : launch.template operator()<1>();
  check_launch("the gradient of SwiGLU");
}

template void swiglu_forward(const Stream&, const SwigluForward<float>&);
template void swiglu_forward(const Stream&, const SwigluForward<bf16>&);
template void swiglu_backward(const Stream&, const SwigluBackward<float>&);
template void swiglu_backward(const Stream&, const SwigluBackward<bf16>&);

}  // namespace draftsmith::cuda
