// Products by cuBLASLt, each by the algorithm that a run or the cache names, else by one chosen by measuring.
#include <fmt/core.h>

#include "base/arithmetic.h"
#include "base/heap.h"
#include "device/cuda/handle.h"
#include "kernels/cuda/choose_algorithm.h"
#include "kernels/cuda/library_product.h"
#include "kernels/tuning_cache.h"

namespace draftsmith::cuda {

namespace {

std::string describe(const Algorithm& algorithm) {
  const auto get = [&](cublasLtMatmulAlgoConfigAttributes_t attribute) {
    std::int32_t value = 0;
    std::size_t written = 0;
    cublaslt().algo_get(&algorithm.description, attribute, &value, sizeof value, &written);
    return value;
  };
  return fmt::format("cuBLASLt {}: algorithm {}, tile {}, stages {}, split {}", cublaslt().version(),
                     get(CUBLASLT_ALGO_CONFIG_ID), get(CUBLASLT_ALGO_CONFIG_TILE_ID),
                     get(CUBLASLT_ALGO_CONFIG_STAGES_ID), get(CUBLASLT_ALGO_CONFIG_SPLITK_NUM));
}

// The library refuses scratch that does not begin on 256 bytes; an arena's views begin on 64.
void* aligned_scratch(void* scratch) {
  const auto place = reinterpret_cast<std::intptr_t>(scratch);
  return reinterpret_cast<void*>(round_up(std::int64_t{place}, kScratchAlignment));
}

bool on_sixteen_bytes(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }

class LibraryMatmul : public CudaMatmul {
 public:
  LibraryMatmul(const Device& device, const MatmulShape& wanted, const std::string& chosen)
      : product_(device, wanted) {
    shape = wanted;
    const TuningCache cache(device, product_facts(device));
    if (!take(chosen) && !take(cache.find(shape.key()).value_or(""))) {
      algorithm_ = choose_algorithm(device, shape, product_);
      cache.keep(shape.key(), choice_text(algorithm_));
    }
    scratch_bytes = kLibraryScratchBytes;
    algorithm = describe(algorithm_);
    choice = choice_text(algorithm_);
  }

  void run(const Stream& stream, const MatmulOperands& operands) const override {
    DRAFTSMITH_CHECK(on_sixteen_bytes(operands.left) && on_sixteen_bytes(operands.right) &&
                         on_sixteen_bytes(operands.output),
                     "the operands of a product begin on 16 bytes");
    MatmulOperands placed = operands;
    placed.scratch = aligned_scratch(operands.scratch);
    const LibraryCall call;
    const cublasStatus_t status = product_.run(stream, placed, algorithm_);
    if (status != CUBLAS_STATUS_SUCCESS) check(status, ("the product " + shape.text()).c_str());
  }

 private:
  bool take(const std::string& text) {
    const auto read = read_choice(text);
    if (!read || read->scratch_bytes > kMaxScratchBytes || !product_.still_runs(*read)) return false;
    algorithm_ = *read;
    return true;
  }

  LibraryProduct product_;
  Algorithm algorithm_;
};

}  // namespace

std::unique_ptr<CudaMatmul> prepare_library(const Device& device, const MatmulShape& shape,
                                            const std::string& choice) {
  check(cudaSetDevice(device.name.index), "choosing a GPU");
  return std::make_unique<LibraryMatmul>(device, shape, choice);
}

}  // namespace draftsmith::cuda
