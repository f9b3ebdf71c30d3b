// The table of the GPUs.
#include "kernels/kernels.h"

#include "kernels/cuda/operations.h"

namespace draftsmith {

template <typename T>
const Kernels<T>& cuda_kernels() {
  static const Kernels<T> kernels{
      .prepare_matmul = cuda::prepare_matmul,
      .matmul_scratch_bytes = cuda::matmul_scratch_bytes,
      .product_facts = cuda::product_facts,
      .attention_path = cuda::attention_path_text<T>,
      .matmul = cuda::run_matmul,
      .copy_rows = cuda::copy_rows<T>,
      .fill_zero = cuda::fill_zero,
      .gather_rows = cuda::gather_rows<T>,
      .spread_block_rows = cuda::spread_block_rows<T>,
      .fold_block_rows = cuda::fold_block_rows<T>,
      .rmsnorm_forward = cuda::rmsnorm_forward<T>,
      .rmsnorm_backward = cuda::rmsnorm_backward<T>,
      .head_norm_rope_forward = cuda::head_norm_rope_forward<T>,
      .head_norm_rope_backward = cuda::head_norm_rope_backward<T>,
      .swiglu_forward = cuda::swiglu_forward<T>,
      .swiglu_backward = cuda::swiglu_backward<T>,
      .prepare_attention = cuda::prepare_attention<T>,
      .attention_forward = cuda::attention_forward<T>,
      .attention_backward = cuda::attention_backward<T>,
      .cross_entropy_forward = cuda::cross_entropy_forward<T>,
      .cross_entropy_with_gradient = cuda::cross_entropy_with_gradient<T>,
      .distillation_forward = cuda::distillation_forward<T>,
      .distillation_backward = cuda::distillation_backward<T>,
      .add_feature_noise = cuda::add_feature_noise<T>,
      .argmax_rows = cuda::argmax_rows<T>,
      .block_loss = cuda::block_loss<T>,
      .column_sum = cuda::column_sum<T>,
      .sum_of_squares = cuda::sum_of_squares<T>,
      .route_experts = cuda::route_experts<T>,
      .expert_products = cuda::expert_products<T>,
      .combine_experts = cuda::combine_experts<T>,
      .prepare_update = cuda::prepare_update<T>,
      .adamw_update = cuda::adamw_update<T>,
      .attention_plan_bytes = cuda::attention_plan_bytes<T>,
      .fold_block_rows_scratch = cuda::fold_block_rows_scratch<T>,
      .rmsnorm_backward_scratch = cuda::rmsnorm_backward_scratch<T>,
      .head_norm_rope_backward_scratch = cuda::head_norm_rope_backward_scratch<T>,
      .attention_forward_scratch = cuda::attention_forward_scratch<T>,
      .attention_backward_scratch = cuda::attention_backward_scratch<T>,
      .column_sum_scratch = cuda::column_sum_scratch<T>,
      .sum_of_squares_scratch = cuda::sum_of_squares_scratch<T>,
      .route_experts_scratch = cuda::route_experts_scratch<T>,
      .expert_products_scratch = cuda::expert_products_scratch<T>,
  };
  return kernels;
}

template const Kernels<float>& cuda_kernels<float>();
template const Kernels<bf16>& cuda_kernels<bf16>();

}  // namespace draftsmith
