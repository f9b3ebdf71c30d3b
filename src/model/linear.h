// A linear layer as products: forward, then the gradients of its input, weight and bias.
#pragma once

#include "kernels/launcher.h"

namespace draftsmith {

// A linear layer: output = input weight^T + bias.
template <typename T>
Matmul<T> linear(Matrix<const T> input, Matrix<const T> weight, Vector<const T> bias, Matrix<T> output) {
  return {.form = MatmulForm::nt, .left = input, .right = weight, .bias = bias, .output = output};
}

// The gradient of a linear layer's input: grad_input (+)= grad_output weight.
template <typename T>
Matmul<T> linear_input_gradient(Matrix<const T> grad_output, Matrix<const T> weight, Matrix<T> grad_input) {
  return {.form = MatmulForm::nn, .left = grad_output, .right = weight, .output = grad_input};
}

// Whether the gradient of a matrix is added to or written: the first micro-batch of a step writes it, which
// saves clearing and reading it.
enum class GradientWrite { add, overwrite };

// The gradient of its weight: grad_weight (+)= grad_output^T input.
template <typename T>
Matmul<T, float> linear_weight_gradient(Matrix<const T> grad_output, Matrix<const T> input,
                                        Matrix<float> grad_weight, GradientWrite write) {
  return {.form = MatmulForm::tn,
          .left = grad_output,
          .right = input,
          .output = grad_weight,
          .accumulate = write == GradientWrite::add};
}

// An empty bias has no gradient. While a step is measured no view has memory, so its size tells.
template <typename T>
void add_bias_gradient(Launcher<T>& launch, Matrix<const T> grad_output, Vector<float> grad_bias) {
  if (grad_bias.size > 0) launch(ColumnSum<T>{.input = grad_output, .output = grad_bias});
}

}  // namespace draftsmith
