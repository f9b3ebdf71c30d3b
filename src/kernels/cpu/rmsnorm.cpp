// A row is summed sixteen lanes at a time and the lanes are folded at the end: equal rows get equal bits.
#include "kernels/rmsnorm.h"

#include <cmath>

#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/operations.h"

namespace draftsmith::cpu {

namespace {

// Writes s = input + addend where there is an addend; returns the row's sum of s^2.
template <typename T>
float add_and_square(const RmsNormForward<T>& arguments, std::int64_t row) {
  Lanes squares{};
  const T* input = arguments.input.row(row);
  if (!arguments.addend) {
    for_lanes(0, arguments.input.columns, [&](auto place) {
      const Lanes s = place.load(input);
      squares += s * s;
    });
    return sum_of(squares);
  }
  const T* addend = arguments.addend.row(row);
  T* sum = arguments.sum.row(row);
  for_lanes(0, arguments.input.columns, [&](auto place) {
    const Lanes s = rounded<T>(place.load(input) + place.load(addend));
    place.store(sum, s);
    squares += s * s;
  });
  return sum_of(squares);
}

template <typename T>
float weight_of(const RmsNormBackward<T>& arguments, std::int64_t row) {
  return arguments.row_weights ? arguments.row_weights[row] : 1.0f;
}

template <typename T>
void backward_row(const RmsNormBackward<T>& arguments, std::int64_t row) {
  const std::int64_t width = arguments.sum.columns;
  const T* sum = arguments.sum.row(row);
  const T* grad_output = arguments.grad_output.row(row);
  const T* weight = arguments.weight.data;
  Lanes products{};
  for_lanes(0, width,
            [&](auto place) { products += place.load(grad_output) * place.load(weight) * place.load(sum); });
  const float r = arguments.inverse_rms[row], scaled = weight_of(arguments, row) * r;
  const float along = r * r * scaled * sum_of(products) / static_cast<float>(width);
  const T* residual = arguments.grad_residual ? arguments.grad_residual.row(row) : nullptr;
  T* grad_sum = arguments.grad_sum.row(row);
  for_lanes(0, width, [&](auto place) {
    Lanes gradient = place.load(grad_output) * place.load(weight) * scaled - place.load(sum) * along;
    if (residual != nullptr) gradient += place.load(residual);
    place.store(grad_sum, gradient);
  });
}

}  // namespace

template <typename T>
void rmsnorm_forward(const Stream& stream, const RmsNormForward<T>& arguments) {
  const std::int64_t rows = arguments.input.rows, width = arguments.input.columns;
  DRAFTSMITH_CHECK(
      arguments.weight.size == width && arguments.output.rows == rows && arguments.output.columns == width,
      "a weight for each column, an output like the input");
  DRAFTSMITH_CHECK(!arguments.addend || (arguments.addend.rows == rows && arguments.addend.columns == width &&
                                         arguments.sum.rows == rows && arguments.sum.columns == width),
                   "addend and sum are like the input");
  parallel_ranges(stream, rows, rows * width / 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const float mean = add_and_square(arguments, row) / static_cast<float>(width);
      const float r = 1.0f / std::sqrt(mean + arguments.epsilon);
      if (arguments.inverse_rms) arguments.inverse_rms[row] = r;
      const T* s = arguments.addend ? arguments.sum.row(row) : arguments.input.row(row);
      T* output = arguments.output.row(row);
      for_lanes(0, width, [&](auto place) {
        place.store(output, place.load(arguments.weight.data) * rounded<T>(place.load(s) * r));
      });
    }
  });
}

template <typename T>
void rmsnorm_backward(const Stream& stream, const RmsNormBackward<T>& arguments) {
  const std::int64_t rows = arguments.sum.rows, width = arguments.sum.columns;
  DRAFTSMITH_CHECK(arguments.weight.size == width && arguments.grad_weight.size == width &&
                       arguments.inverse_rms.size == rows &&
                       (!arguments.row_weights || arguments.row_weights.size == rows),
                   "a weight for each column, a scale for each row");
  DRAFTSMITH_CHECK(arguments.grad_output.rows == rows && arguments.grad_output.columns == width &&
                       arguments.grad_sum.rows == rows && arguments.grad_sum.columns == width,
                   "gradients are like what they are of");
  add_column_sums(stream, rows, width, arguments.grad_weight.data, [&](std::int64_t row, auto place) {
    return place.load(arguments.grad_output.row(row)) *
           (place.load(arguments.sum.row(row)) * (weight_of(arguments, row) * arguments.inverse_rms[row]));
  });
  parallel_ranges(stream, rows, rows * width / 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) backward_row(arguments, row);
  });
}

template void rmsnorm_forward(const Stream&, const RmsNormForward<float>&);
template void rmsnorm_forward(const Stream&, const RmsNormForward<bf16>&);
template void rmsnorm_backward(const Stream&, const RmsNormBackward<float>&);
template void rmsnorm_backward(const Stream&, const RmsNormBackward<bf16>&);

}  // namespace draftsmith::cpu
