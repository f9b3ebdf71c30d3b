#include "model/rounding_kernels.h"

namespace draftsmith {
namespace {

// Rounds a stored activation, weight or table in place; rounding twice changes nothing.
void stored(Matrix<const float> matrix) {
  if (!matrix) return;
  float* data = const_cast<float*>(matrix.data);  // the tests own all of this memory
  for (std::int64_t r = 0; r < matrix.rows; ++r) {
    for (std::int64_t c = 0; c < matrix.columns; ++c)
      data[r * matrix.stride + c] = bf16(data[r * matrix.stride + c]);
  }
}

void stored(Vector<const float> vector) {
  stored(Matrix<const float>{vector.data, 1, vector.size, vector.size});
}

void stored(const void* data, std::int64_t rows, std::int64_t columns, std::int64_t stride) {
  stored(Matrix<const float>{static_cast<const float*>(data), rows, columns, stride});
}

const Kernels<float>& exact() { return cpu_kernels<float>(); }

// Operands are activations or weights. The output of nn is the gradient of an activation and is stored in
// bf16; that of tn is a weight gradient and stays float; that of nt is rounded where it is read: as an
// activation, or as logits, which a bf16 run stores in bf16 too.
void matmul(const Stream& stream, const PreparedMatmul& prepared, const MatmulOperands& operands) {
  const MatmulShape& shape = prepared.shape;
  const bool tn = shape.form == MatmulForm::tn, nt = shape.form == MatmulForm::nt;
  stored(operands.left, tn ? shape.depth : shape.rows, tn ? shape.rows : shape.depth, shape.left_stride);
  stored(operands.right, nt ? shape.columns : shape.depth, nt ? shape.depth : shape.columns,
         shape.right_stride);
  stored(operands.bias, 1, shape.columns, shape.columns);
  exact().matmul(stream, prepared, operands);
  if (shape.form == MatmulForm::nn) stored(operands.output, shape.rows, shape.columns, shape.output_stride);
}

void wrap_norms(Kernels<float>& table) {
  table.rmsnorm_forward = [](const Stream& stream, const RmsNormForward<float>& a) {
    stored(a.input), stored(a.addend), stored(a.weight);
    exact().rmsnorm_forward(stream, a);
    stored(a.sum), stored(a.output);
  };
  table.rmsnorm_backward = [](const Stream& stream, const RmsNormBackward<float>& a) {
    stored(a.weight), stored(a.grad_output);
    exact().rmsnorm_backward(stream, a);
    stored(a.grad_sum);
  };
  table.head_norm_rope_forward = [](const Stream& stream, const HeadNormRopeForward<float>& a) {
    stored(a.input), stored(a.weight);
    exact().head_norm_rope_forward(stream, a);
    stored(a.output);
  };
  table.head_norm_rope_backward = [](const Stream& stream, const HeadNormRopeBackward<float>& a) {
    stored(a.weight), stored(a.grad_output);
    exact().head_norm_rope_backward(stream, a);
    stored(a.grad_input);
  };
}

// The sum of the shared rows is kept as a stored value and what its rounding left.
void wrap_block_rows(Kernels<float>& table) {
  table.spread_block_rows = [](const Stream& stream, const SpreadBlockRows<float>& a) {
    stored(a.distinct);
    exact().spread_block_rows(stream, a);
  };
  table.fold_block_rows = [](const Stream& stream, const FoldBlockRows<float>& a) {
    stored(a.input);
    exact().fold_block_rows(stream, a);
    const std::int64_t high = a.distinct.rows - 2, low = high + 1;
    for (std::int64_t column = 0; column < a.distinct.columns; ++column) {
      const float sum = a.distinct(high, column);
      a.distinct(high, column) = bf16(sum);
      a.distinct(low, column) = bf16(sum - a.distinct(high, column));
    }
  };
}

void wrap_the_rest(Kernels<float>& table) {
  table.swiglu_forward = [](const Stream& stream, const SwigluForward<float>& a) {
    stored(a.gate_up);
    exact().swiglu_forward(stream, a);
    stored(a.output);
  };
  table.swiglu_backward = [](const Stream& stream, const SwigluBackward<float>& a) {
    exact().swiglu_backward(stream, a);
    stored(a.grad_gate_up);
  };
  table.attention_forward = [](const Stream& stream, const AttentionForward<float>& a) {
    stored(a.context_value), stored(a.block_value);
    exact().attention_forward(stream, a);
    stored(a.output);
  };
  table.attention_backward = [](const Stream& stream, const AttentionBackward<float>& a) {
    exact().attention_backward(stream, a);
    stored(a.grad_query), stored(a.grad_context_key), stored(a.grad_context_value);
    stored(a.grad_block_key), stored(a.grad_block_value);
  };
  table.cross_entropy_forward = [](const Stream& stream, const CrossEntropyForward<float>& a) {
    stored(a.logits);
    exact().cross_entropy_forward(stream, a);
  };
  table.cross_entropy_with_gradient = [](const Stream& stream, const CrossEntropyWithGradient<float>& a) {
    stored(a.logits);
    exact().cross_entropy_with_gradient(stream, a);
    stored(a.logits);
  };
  table.distillation_forward = [](const Stream& stream, const DistillationForward<float>& a) {
    stored(a.logits), stored(a.teacher_logits);
    exact().distillation_forward(stream, a);
  };
  table.distillation_backward = [](const Stream& stream, const DistillationBackward<float>& a) {
    exact().distillation_backward(stream, a);
    stored(a.grad_logits);
  };
}

}  // namespace

const Kernels<float>& rounding_kernels() {
  static const Kernels<float> kernels = [] {
    Kernels<float> table = exact();
    table.matmul = matmul;
    wrap_norms(table);
    wrap_block_rows(table);
    wrap_the_rest(table);
    return table;
  }();
  return kernels;
}

}  // namespace draftsmith
