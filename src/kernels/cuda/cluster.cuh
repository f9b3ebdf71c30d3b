// Clusters of thread blocks, which reach each other's shared memory (compute capability 9.0 and newer).
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.cuh"

namespace draftsmith::cuda {

// The barrier of a cluster in its halves. Before a block writes into another's shared memory both have arrived once, and
// none leaves before the writes into it have been waited for.
__device__ inline void cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

// Writes `value` where `block` of the cluster has the shared variable that is `own` here.
template <typename E>
__device__ void store_in_block(E* own, std::uint32_t block, const E& value) {
  static_assert(sizeof(E) % 4 == 0);
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(own));
  std::uint32_t there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(block));
  const auto* words = reinterpret_cast<const std::uint32_t*>(&value);
#pragma unroll
  for (std::uint32_t i = 0; i < sizeof(E) / 4; ++i) {
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(there + 4 * i), "r"(words[i]) : "memory");
  }
}

// clusters x blocks thread blocks, numbered cluster by cluster.
template <typename... Parameters, typename... Arguments>
void launch_clusters(const Stream& stream, void (*kernel)(Parameters...), std::int64_t clusters,
                     unsigned blocks, unsigned threads, std::size_t shared_bytes,
                     const Arguments&... arguments) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {blocks, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(grid_of(clusters * blocks));
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = native(stream);
  config.attrs = &attribute;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, kernel, arguments...), "launching a kernel in clusters");
}

}  // namespace draftsmith::cuda
