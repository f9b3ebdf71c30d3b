// Bulk copies between global and shared memory, and the tensor maps that describe tiles to the copy engine.
// A tile is cut into panels of 64 columns (128 bytes), each [rows, 128 bytes] with the 128-byte swizzle:
// chunk c of 16 bytes in row r lies at c ^ (r % 8).
#pragma once

#include <cstdint>

#include <cuda.h>
#include <cuda_runtime.h>

#include "kernels/cuda/attention_tile.cuh"

namespace draftsmith::cuda {

inline constexpr int kPanelColumns = 64;

__device__ inline void prefetch_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(reinterpret_cast<std::uint64_t>(&map)) : "memory");
}

__device__ inline void load_box(std::uint32_t to, const CUtensorMap& map, int column, int row,
                                std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
      "[%4];" ::"r"(to),
      "l"(reinterpret_cast<std::uint64_t>(&map)), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}
__device__ inline void load_box(std::uint32_t to, const CUtensorMap& map, int column, int head, int token,
                                std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], "
      "[%5];" ::"r"(to),
      "l"(reinterpret_cast<std::uint64_t>(&map)), "r"(column), "r"(head), "r"(token), "r"(barrier)
      : "memory");
}
__device__ inline void load_bytes(std::uint32_t to, const void* from, int bytes, std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
      "l"(reinterpret_cast<std::uint64_t>(from)), "r"(bytes), "r"(barrier)
      : "memory");
}
// Stores belong to groups of the issuing thread, which alone can wait for them.
__device__ inline void store_bytes(void* to, std::uint32_t from, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
                   reinterpret_cast<std::uint64_t>(to)),
               "r"(from), "r"(bytes)
               : "memory");
}
__device__ inline void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Until at most `pending` groups have yet to read their shared memory.
template <int pending>
__device__ void wait_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}
__device__ inline void wait_stores() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// A box of `rows` rows by 64 columns of a matrix.
CUtensorMap panel_map(const Matrix<const bf16>& matrix, int rows);
// A box of 64 packed rows by 64 columns of one kv head, of a matrix [tokens, query heads * head_dim].
CUtensorMap packed_panel_map(const Matrix<const bf16>& matrix, const AttentionShape& shape);
// The statistics of one query tile, as they lie.
CUtensorMap statistics_map(const Vector<float>& statistics);

}  // namespace draftsmith::cuda
