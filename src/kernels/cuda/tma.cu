#include "kernels/cuda/tma.cuh"

namespace draftsmith::cuda {

namespace {

using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                            const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                            CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

// Asked from the runtime, so that the program does not link against the driver and runs where there is none.
Encode find_encode() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  check_cuda(
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found),
      "asking the driver for tensor maps");
  DRAFTSMITH_CHECK(found == cudaDriverEntryPointSuccess, "a driver of a Hopper card makes tensor maps");
  return reinterpret_cast<Encode>(function);
}

struct Box {
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
  int dimensions;
  cuuint64_t sizes[3], strides[2];  // strides in bytes, of all dimensions but the first
  cuuint32_t box[3];
};

CUtensorMap encode(const void* data, const Box& box) {
  static const Encode encode_tiled = find_encode();
  const cuuint32_t element_strides[3] = {1, 1, 1};
  CUtensorMap map;
  const CUresult result =
      encode_tiled(&map, box.type, static_cast<cuuint32_t>(box.dimensions), const_cast<void*>(data),
                   box.sizes, box.strides, box.box, element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE,
                   box.swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  DRAFTSMITH_CHECK(result == CUDA_SUCCESS, "bases, strides and boxes were checked before");
  return map;
}

cuuint64_t stride_bytes(const Matrix<const bf16>& matrix) {
  return static_cast<cuuint64_t>(matrix.stride) * sizeof(bf16);
}

}  // namespace

CUtensorMap panel_map(const Matrix<const bf16>& matrix, int rows) {
  return encode(matrix.data,
                {.dimensions = 2,
                 .sizes = {static_cast<cuuint64_t>(matrix.columns), static_cast<cuuint64_t>(matrix.rows)},
                 .strides = {stride_bytes(matrix)},
                 .box = {kPanelColumns, static_cast<cuuint32_t>(rows)}});
}

CUtensorMap packed_panel_map(const Matrix<const bf16>& matrix, const AttentionShape& shape) {
  const auto heads = static_cast<cuuint32_t>(packed_heads(shape));
  const auto head_dim = static_cast<cuuint64_t>(shape.head_dim);
  return encode(
      matrix.data,
      {.dimensions = 3,
       .sizes = {head_dim, static_cast<cuuint64_t>(shape.query_heads), static_cast<cuuint64_t>(matrix.rows)},
       .strides = {head_dim * sizeof(bf16), stride_bytes(matrix)},
       .box = {kPanelColumns, heads, static_cast<cuuint32_t>(kQueryTileRows) / heads}});
}

CUtensorMap statistics_map(const Vector<float>& statistics) {
  return encode(statistics.data,
                {.type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
                 .swizzle = CU_TENSOR_MAP_SWIZZLE_NONE,
                 .dimensions = 2,
                 .sizes = {kQueryTileRows, static_cast<cuuint64_t>(statistics.size / kQueryTileRows)},
                 .strides = {kQueryTileRows * sizeof(float)},
                 .box = {kQueryTileRows, static_cast<cuuint32_t>(Statistic::count)}});
}

}  // namespace draftsmith::cuda
