// The CUDA side of every operation, beside its contract's name; kernels.cpp gathers them into the table.
#pragma once

#include <memory>

#include "kernels/kernels.h"

namespace draftsmith::cuda {

std::unique_ptr<PreparedMatmul> prepare_matmul(const Device& device, const MatmulShape& shape,
                                               const std::string& choice);
std::int64_t matmul_scratch_bytes(const Device& device, const MatmulShape& shape);
DeviceFacts product_facts(const Device& device);
void run_matmul(const Stream& stream, const PreparedMatmul& prepared, const MatmulOperands& operands);

void fill_zero(const Stream& stream, const FillZero& arguments);

template <typename T>
void copy_rows(const Stream& stream, const CopyRows<T>& arguments);
template <typename T>
void gather_rows(const Stream& stream, const GatherRows<T>& arguments);
template <typename T>
void spread_block_rows(const Stream& stream, const SpreadBlockRows<T>& arguments);
template <typename T>
std::int64_t fold_block_rows_scratch(const Device& device, const FoldBlockRows<T>& arguments);
template <typename T>
void fold_block_rows(const Stream& stream, const FoldBlockRows<T>& arguments);
template <typename T>
void rmsnorm_forward(const Stream& stream, const RmsNormForward<T>& arguments);
template <typename T>
void rmsnorm_backward(const Stream& stream, const RmsNormBackward<T>& arguments);
template <typename T>
std::int64_t rmsnorm_backward_scratch(const Device& device, const RmsNormBackward<T>& arguments);
template <typename T>
void head_norm_rope_forward(const Stream& stream, const HeadNormRopeForward<T>& arguments);
template <typename T>
void head_norm_rope_backward(const Stream& stream, const HeadNormRopeBackward<T>& arguments);
template <typename T>
std::int64_t head_norm_rope_backward_scratch(const Device& device, const HeadNormRopeBackward<T>& arguments);
template <typename T>
void swiglu_forward(const Stream& stream, const SwigluForward<T>& arguments);
template <typename T>
void swiglu_backward(const Stream& stream, const SwigluBackward<T>& arguments);
template <typename T>
void prepare_attention(const Stream& stream, const PrepareAttention<T>& arguments);
template <typename T>
std::int64_t attention_plan_bytes(const Device& device, const PrepareAttention<T>& arguments);
template <typename T>
void attention_forward(const Stream& stream, const AttentionForward<T>& arguments);
template <typename T>
std::int64_t attention_forward_scratch(const Device& device, const AttentionForward<T>& arguments);
template <typename T>
void attention_backward(const Stream& stream, const AttentionBackward<T>& arguments);
template <typename T>
std::int64_t attention_backward_scratch(const Device& device, const AttentionBackward<T>& arguments);
// A line about the path of a launch. Throws Error when Device::attention asks for one that does not serve it.
template <typename T>
std::string attention_path_text(const Device& device, const AttentionForward<T>& arguments);
// The plain path of attention: any head_dim up to 256, speed free.
template <typename T>
void plain_attention_forward(const Stream& stream, const AttentionForward<T>& arguments);
template <typename T>
void plain_attention_backward(const Stream& stream, const AttentionBackward<T>& arguments);
template <typename T>
void cross_entropy_forward(const Stream& stream, const CrossEntropyForward<T>& arguments);
template <typename T>
void cross_entropy_with_gradient(const Stream& stream, const CrossEntropyWithGradient<T>& arguments);
bool cross_entropy_fits_cluster(const Device& device, const Matrix<bf16>& logits);
void cross_entropy_in_clusters(const Stream& stream, const CrossEntropyWithGradient<bf16>& arguments);
template <typename T>
void distillation_forward(const Stream& stream, const DistillationForward<T>& arguments);
template <typename T>
void distillation_backward(const Stream& stream, const DistillationBackward<T>& arguments);
template <typename T>
void add_feature_noise(const Stream& stream, const AddFeatureNoise<T>& arguments);
template <typename T>
void argmax_rows(const Stream& stream, const ArgmaxRows<T>& arguments);
template <typename T>
void block_loss(const Stream& stream, const BlockLoss<T>& arguments);
template <typename T>
void column_sum(const Stream& stream, const ColumnSum<T>& arguments);
template <typename T>
std::int64_t column_sum_scratch(const Device& device, const ColumnSum<T>& arguments);
template <typename T>
void sum_of_squares(const Stream& stream, const SumOfSquares<T>& arguments);
template <typename T>
std::int64_t sum_of_squares_scratch(const Device& device, const SumOfSquares<T>& arguments);
template <typename T>
void route_experts(const Stream& stream, const RouteExperts<T>& arguments);
template <typename T>
std::int64_t route_experts_scratch(const Device& device, const RouteExperts<T>& arguments);
template <typename T>
void expert_products(const Stream& stream, const ExpertProducts<T>& arguments);
template <typename T>
std::int64_t expert_products_scratch(const Device& device, const ExpertProducts<T>& arguments);
template <typename T>
void combine_experts(const Stream& stream, const CombineExperts<T>& arguments);
template <typename T>
void prepare_update(const Stream& stream, const PrepareUpdate<T>& arguments);
template <typename T>
void adamw_update(const Stream& stream, const AdamWUpdate<T>& arguments);

}  // namespace draftsmith::cuda
