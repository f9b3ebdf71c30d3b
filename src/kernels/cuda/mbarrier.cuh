// Barriers in shared memory that count arrivals and bytes (mbarrier), named barriers of warpgroups, and the
// fence between ordinary and asynchronous accesses. A consumer waits for parity 0 first; a producer that
// waits for a slot to become free starts with parity 1, which a new barrier fulfils at once.
#pragma once

#include <cstdint>

namespace draftsmith::cuda {

struct Mbarrier {
  std::uint32_t address;

  __device__ void init(int arrivals) const {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address), "r"(arrivals) : "memory");
  }
  // One arrival; the phase completes when `bytes` more have landed.
  __device__ void arrive_expecting(int bytes) const {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address), "r"(bytes)
                 : "memory");
  }
  __device__ void arrive() const {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address) : "memory");
  }
  __device__ void wait(std::uint32_t parity) const {
    std::uint32_t done;
    do {
      asm volatile(
          "{\n.reg .pred p;\n"
          "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
          "selp.u32 %0, 1, 0, p;\n}"
          : "=r"(done)
          : "r"(address), "r"(parity)
          : "memory");
    } while (done == 0);
  }
};

// After init, before any other thread or the copy engine uses the barriers.
__device__ inline void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Ordinary writes of this thread become visible to wgmma and bulk copies, after a barrier.
__device__ inline void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Barrier 0 is __syncthreads.
__device__ inline void named_barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// A place in a ring of slots and the parity of its barriers' phase.
template <int slots>
struct RingPlace {
  int slot = 0;
  std::uint32_t parity = 0;

  __device__ void advance() {
    if (++slot == slots) {
      slot = 0;
      parity ^= 1;
    }
  }
};

}  // namespace draftsmith::cuda
