#include "kernels/swiglu.h"

#include "device/cpu/parallel.h"
#include "kernels/cpu/operations.h"
#include "kernels/cpu/vector_math.h"

namespace draftsmith::cpu {

template <typename T>
void swiglu_forward(const Stream& stream, const SwigluForward<T>& arguments) {
  const auto& gate_up = arguments.gate_up;
  const auto& output = arguments.output;
  const std::int64_t rows = output.rows, width = output.columns;
  DRAFTSMITH_CHECK(gate_up.rows == rows && gate_up.columns == 2 * width, "gate and up side by side");
  parallel_ranges(stream, rows, rows * width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const T* gate = gate_up.row(row);
      const T* up = gate + width;
      for_lanes(0, width, [&](auto place) {
        const Lanes g = place.load(gate);
        place.store(output.row(row), g / (1.0f + exp(-g)) * place.load(up));
      });
    }
  });
}

template <typename T>
void swiglu_backward(const Stream& stream, const SwigluBackward<T>& arguments) {
  const auto& gate_up = arguments.gate_up;
  const auto& grad_output = arguments.grad_output;
  const auto& grad_gate_up = arguments.grad_gate_up;
  const std::int64_t rows = grad_output.rows, width = grad_output.columns;
  DRAFTSMITH_CHECK(gate_up.rows == rows && gate_up.columns == 2 * width && grad_gate_up.rows == rows &&
                       grad_gate_up.columns == 2 * width,
                   "gate and up side by side, and their gradients");
  parallel_ranges(stream, rows, rows * width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const T* gate = gate_up.row(row);
      const T* up = gate + width;
      T* grad_gate = grad_gate_up.row(row);
      T* grad_up = grad_gate + width;
      for_lanes(0, width, [&](auto place) {
        const Lanes g = place.load(gate), u = place.load(up), grad = place.load(grad_output.row(row));
        const Lanes s = 1.0f / (1.0f + exp(-g));
        place.store(grad_gate, grad * u * s * (1.0f + g * (1.0f - s)));
        place.store(grad_up, grad * g * s);
      });
    }
  });
}

template void swiglu_forward(const Stream&, const SwigluForward<float>&);
template void swiglu_forward(const Stream&, const SwigluForward<bf16>&);
template void swiglu_backward(const Stream&, const SwigluBackward<float>&);
template void swiglu_backward(const Stream&, const SwigluBackward<bf16>&);

}  // namespace draftsmith::cpu
