// cuBLASLt thinks column-major: output^T = right'^T left'^T, so its first operand is our right one. Sums are in fp32,
// also of floats (no TF32). Algorithms that split the depth are proposed only if they add the parts in a fixed order.
#include "kernels/cuda/library_product.h"

#include <array>

#include "device/cuda/handle.h"

namespace draftsmith::cuda {
namespace {

constexpr int kProposals = 16;

cudaDataType_t data_type(DType type) { return type == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F; }

CublasLtHandle<cublasLtMatrixLayoutOpaque_t> make_layout(DType type, std::int64_t rows, std::int64_t columns,
                                                         std::int64_t stride) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(cublaslt().layout_create(&layout, data_type(type), static_cast<std::uint64_t>(rows),
                                 static_cast<std::uint64_t>(columns), stride),
        "describing a matrix");
  return CublasLtHandle<cublasLtMatrixLayoutOpaque_t>(layout);
}

CublasLtHandle<cublasLtMatmulDescOpaque_t> make_desc(const MatmulShape& shape) {
  cublasLtMatmulDesc_t desc = nullptr;
  check(cublaslt().desc_create(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing a product");
  CublasLtHandle<cublasLtMatmulDescOpaque_t> owned(desc);
  const cublasOperation_t first = shape.form == MatmulForm::nt ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = shape.form == MatmulForm::tn ? CUBLAS_OP_T : CUBLAS_OP_N;
  check(cublaslt().desc_set(desc, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first), "describing a product");
  check(cublaslt().desc_set(desc, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second),
        "describing a product");
  if (shape.bias) {
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    check(cublaslt().desc_set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue),
          "adding a bias");
  }
  return owned;
}

CublasLtHandle<cublasLtMatmulPreferenceOpaque_t> make_preference() {
  cublasLtMatmulPreference_t preference = nullptr;
  check(cublaslt().preference_create(&preference), "asking for algorithms");
  CublasLtHandle<cublasLtMatmulPreferenceOpaque_t> owned(preference);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check(cublaslt().preference_set(preference, attribute, &value, sizeof value), "asking for algorithms");
  };
  const std::uint32_t alignment = 16;  // what views of the arena have
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::size_t>(kMaxScratchBytes));
  // Parts of a split depth go to scratch in fp32 and are added by a step of their own, in order.
  const std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
  return owned;
}

}  // namespace

LibraryProduct::LibraryProduct(const Device& device, const MatmulShape& shape)
    : handle_(handle_of(device)),
      desc_(make_desc(shape)),
      first_(shape.form == MatmulForm::nt
                 ? make_layout(shape.storage, shape.depth, shape.columns, shape.right_stride)
                 : make_layout(shape.storage, shape.columns, shape.depth, shape.right_stride)),
      second_(shape.form == MatmulForm::tn
                  ? make_layout(shape.storage, shape.rows, shape.depth, shape.left_stride)
                  : make_layout(shape.storage, shape.depth, shape.rows, shape.left_stride)),
      output_(make_layout(shape.output, shape.columns, shape.rows, shape.output_stride)),
      beta_(shape.accumulate ? 1.0f : 0.0f),
      bias_(shape.bias) {}

cublasStatus_t LibraryProduct::run(const Stream& stream, const MatmulOperands& operands,
                                   const Algorithm& algorithm) const {
  if (bias_) {
    const void* pointer = operands.bias;
    check(cublaslt().desc_set(desc_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, &pointer, sizeof pointer),
          "naming a bias");
  }
  const float alpha = 1;
  return cublaslt().matmul(handle_, desc_.get(), &alpha, operands.right, first_.get(), operands.left,
                           second_.get(), &beta_, operands.output, output_.get(), operands.output,
                           output_.get(), &algorithm.description, operands.scratch,
                           static_cast<std::size_t>(algorithm.scratch_bytes), native(stream));
}

std::vector<Algorithm> LibraryProduct::propose() const {
  std::array<cublasLtMatmulHeuristicResult_t, kProposals> results{};
  int count = 0;
  const cublasStatus_t status =
      cublaslt().heuristic(handle_, desc_.get(), first_.get(), second_.get(), output_.get(), output_.get(),
                           make_preference().get(), kProposals, results.data(), &count);
  std::vector<Algorithm> algorithms;
  if (status != CUBLAS_STATUS_SUCCESS) return algorithms;
  for (int i = 0; i < count; ++i) {
    const auto& result = results[static_cast<std::size_t>(i)];
    if (result.state != CUBLAS_STATUS_SUCCESS) continue;
    algorithms.push_back({result.algo, static_cast<std::int64_t>(result.workspaceSize)});
  }
  return algorithms;
}

bool LibraryProduct::still_runs(const Algorithm& algorithm) const {
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status =
      cublaslt().algo_check(handle_, desc_.get(), first_.get(), second_.get(), output_.get(), output_.get(),
                            &algorithm.description, &result);
  return status == CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= static_cast<std::size_t>(algorithm.scratch_bytes);
}

}  // namespace draftsmith::cuda
