// The table of the logical CPU devices.
#include "kernels/kernels.h"

#include "kernels/cpu/operations.h"

namespace draftsmith {

template <typename T>
const Kernels<T>& cpu_kernels() {
  static const Kernels<T> kernels{
      .prepare_matmul = cpu::prepare_matmul,
      .product_facts = cpu::product_facts,
      .matmul = cpu::run_matmul,
      .copy_rows = cpu::copy_rows<T>,
      .fill_zero = cpu::fill_zero,
      .gather_rows = cpu::gather_rows<T>,
      .spread_block_rows = cpu::spread_block_rows<T>,
      .fold_block_rows = cpu::fold_block_rows<T>,
      .rmsnorm_forward = cpu::rmsnorm_forward<T>,
      .rmsnorm_backward = cpu::rmsnorm_backward<T>,
      .head_norm_rope_forward = cpu::head_norm_rope_forward<T>,
      .head_norm_rope_backward = cpu::head_norm_rope_backward<T>,
      .swiglu_forward = cpu::swiglu_forward<T>,
      .swiglu_backward = cpu::swiglu_backward<T>,
      .attention_forward = cpu::attention_forward<T>,
      .attention_backward = cpu::attention_backward<T>,
      .cross_entropy_forward = cpu::cross_entropy_forward<T>,
      .cross_entropy_with_gradient = cpu::cross_entropy_with_gradient<T>,
      .distillation_forward = cpu::distillation_forward<T>,
      .distillation_backward = cpu::distillation_backward<T>,
      .add_feature_noise = cpu::add_feature_noise<T>,
      .argmax_rows = cpu::argmax_rows<T>,
      .block_loss = cpu::block_loss<T>,
      .column_sum = cpu::column_sum<T>,
      .sum_of_squares = cpu::sum_of_squares<T>,
      .route_experts = cpu::route_experts<T>,
      .expert_products = cpu::expert_products<T>,
      .combine_experts = cpu::combine_experts<T>,
      .prepare_update = cpu::prepare_update<T>,
      .adamw_update = cpu::adamw_update<T>,
      .fold_block_rows_scratch = cpu::fold_block_rows_scratch<T>,
  };
  return kernels;
}

template const Kernels<float>& cpu_kernels<float>();
template const Kernels<bf16>& cpu_kernels<bf16>();

}  // namespace draftsmith
