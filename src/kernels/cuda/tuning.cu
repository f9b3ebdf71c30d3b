#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/tuning.h"
#include "kernels/cuda/vector.cuh"

namespace draftsmith::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 1024;

__device__ std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// The sum of four uniform numbers, scaled: close enough to normal for the switching of real data.
template <typename T>
__global__ void fill_random_kernel(T* data, std::int64_t count, std::uint64_t seed) {
  const std::int64_t step = static_cast<std::int64_t>(kBlocks) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += step) {
    const std::uint64_t bits = mix(static_cast<std::uint64_t>(i) + (seed << 40));
    const auto sum =
        static_cast<float>((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48));
    data[i] = to_stored<T>((sum * 0x1p-16f - 2.0f) * 1.7320508f);
  }
}

// Whole numbers are added, so the order is free.
__global__ void digest_kernel(const std::uint32_t* words, std::int64_t count, unsigned long long* digest) {
  const std::int64_t step = static_cast<std::int64_t>(kBlocks) * kThreads;
  unsigned long long sum = 0;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += step) {
    sum += mix((static_cast<std::uint64_t>(i) << 32) ^ words[i]);
  }
  atomicAdd(digest, sum);
}

}  // namespace

void fill_random(const Stream& stream, DType type, void* data, std::int64_t count, std::uint32_t seed) {
  if (type == DType::bf16) {
    fill_random_kernel<<<kBlocks, kThreads, 0, native(stream)>>>(static_cast<bf16*>(data), count, seed);
  } else {
    fill_random_kernel<<<kBlocks, kThreads, 0, native(stream)>>>(static_cast<float*>(data), count, seed);
  }
  check_launch("filling with random numbers");
}

void digest_bytes(const Stream& stream, const void* data, std::int64_t bytes, std::uint64_t* digest) {
  check(cudaMemsetAsync(digest, 0, sizeof *digest, native(stream)), "clearing a digest");
  digest_kernel<<<kBlocks, kThreads, 0, native(stream)>>>(static_cast<const std::uint32_t*>(data), bytes / 4,
                                                          reinterpret_cast<unsigned long long*>(digest));
  check_launch("digesting");
}

}  // namespace draftsmith::cuda
