// Every operation of a device as one function pointer. A table is plain data: CPU devices and GPUs live in
// one process and tests compare them. Passing a Launcher says "this code can launch".
#pragma once

#include <memory>

#include "kernels/adamw.h"
#include "kernels/attention.h"
#include "kernels/block_loss.h"
#include "kernels/block_rows.h"
#include "kernels/copy.h"
#include "kernels/cross_entropy.h"
#include "kernels/distillation.h"
#include "kernels/feature_noise.h"
#include "kernels/head_norm_rope.h"
#include "kernels/matmul.h"
#include "kernels/moe.h"
#include "kernels/product_choices.h"
#include "kernels/reduce.h"
#include "kernels/rmsnorm.h"
#include "kernels/swiglu.h"

namespace draftsmith {

template <typename T>
struct Kernels {
  template <typename Arguments>
  using Launch = void (*)(const Stream&, const Arguments&);
  // Prepares a launch with these sizes, before seal(), and says how many bytes of Stream::scratch it needs.
  // Null: nothing to prepare, no scratch. Reads no memory of the device.
  template <typename Arguments>
  using ScratchBytes = std::int64_t (*)(const Device&, const Arguments&);

  // `choice` is PreparedMatmul::choice of an earlier preparation with the same facts, or empty. It is followed
  // where that still can be; else the algorithm is chosen anew.
  std::unique_ptr<PreparedMatmul> (*prepare_matmul)(const Device&, const MatmulShape&,
                                                    const std::string& choice) = nullptr;
  // What PreparedMatmul::scratch_bytes will be. Null: only a prepared product knows.
  std::int64_t (*matmul_scratch_bytes)(const Device&, const MatmulShape&) = nullptr;
  // What choices, and the bits of a product, depend on. Throws Error when the device has no library for them.
  DeviceFacts (*product_facts)(const Device&) = nullptr;
  // A line about which implementation a launch takes. Throws Error when Device::attention asks for one that
  // does not serve it. Null: the device has but one.
  std::string (*attention_path)(const Device&, const AttentionForward<T>&) = nullptr;
  void (*matmul)(const Stream&, const PreparedMatmul&, const MatmulOperands&) = nullptr;

  Launch<CopyRows<T>> copy_rows = nullptr;
  Launch<FillZero> fill_zero = nullptr;
  Launch<GatherRows<T>> gather_rows = nullptr;
  Launch<SpreadBlockRows<T>> spread_block_rows = nullptr;
  Launch<FoldBlockRows<T>> fold_block_rows = nullptr;
  Launch<RmsNormForward<T>> rmsnorm_forward = nullptr;
  Launch<RmsNormBackward<T>> rmsnorm_backward = nullptr;
  Launch<HeadNormRopeForward<T>> head_norm_rope_forward = nullptr;
  Launch<HeadNormRopeBackward<T>> head_norm_rope_backward = nullptr;
  Launch<SwigluForward<T>> swiglu_forward = nullptr;
  Launch<SwigluBackward<T>> swiglu_backward = nullptr;
  Launch<PrepareAttention<T>> prepare_attention = nullptr;  // null on devices that need no plan
  Launch<AttentionForward<T>> attention_forward = nullptr;
  Launch<AttentionBackward<T>> attention_backward = nullptr;
  Launch<CrossEntropyForward<T>> cross_entropy_forward = nullptr;
  Launch<CrossEntropyWithGradient<T>> cross_entropy_with_gradient = nullptr;
  Launch<DistillationForward<T>> distillation_forward = nullptr;
  Launch<DistillationBackward<T>> distillation_backward = nullptr;
  Launch<AddFeatureNoise<T>> add_feature_noise = nullptr;
  Launch<ArgmaxRows<T>> argmax_rows = nullptr;
  Launch<BlockLoss<T>> block_loss = nullptr;
  Launch<ColumnSum<T>> column_sum = nullptr;
  Launch<SumOfSquares<T>> sum_of_squares = nullptr;
  Launch<RouteExperts<T>> route_experts = nullptr;
  Launch<ExpertProducts<T>> expert_products = nullptr;
  Launch<CombineExperts<T>> combine_experts = nullptr;
  Launch<PrepareUpdate<T>> prepare_update = nullptr;
  Launch<AdamWUpdate<T>> adamw_update = nullptr;

  // Bytes of PrepareAttention::plan, whose own size is not read; null on devices that need no plan.
  ScratchBytes<PrepareAttention<T>> attention_plan_bytes = nullptr;

  ScratchBytes<FoldBlockRows<T>> fold_block_rows_scratch = nullptr;
  ScratchBytes<RmsNormBackward<T>> rmsnorm_backward_scratch = nullptr;
  ScratchBytes<HeadNormRopeBackward<T>> head_norm_rope_backward_scratch = nullptr;
  ScratchBytes<AttentionForward<T>> attention_forward_scratch = nullptr;
  ScratchBytes<AttentionBackward<T>> attention_backward_scratch = nullptr;
  ScratchBytes<ColumnSum<T>> column_sum_scratch = nullptr;
  ScratchBytes<SumOfSquares<T>> sum_of_squares_scratch = nullptr;
  ScratchBytes<RouteExperts<T>> route_experts_scratch = nullptr;
  ScratchBytes<ExpertProducts<T>> expert_products_scratch = nullptr;
};

// The tables of the logical CPU devices and of the GPUs, for float and bf16; kernels/tables.h chooses.
template <typename T>
const Kernels<T>& cpu_kernels();
template <typename T>
const Kernels<T>& cuda_kernels();

}  // namespace draftsmith
