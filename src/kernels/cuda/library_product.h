// One product as cuBLASLt sees it: its descriptions, which algorithms the library proposes for it, and a run of one.
#pragma once

#include <cstdint>
#include <vector>

#include <cublasLt.h>

#include "device/device.h"
#include "device/stream.h"
#include "kernels/cuda/choices.h"
#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/matmul.h"

namespace draftsmith::cuda {

inline constexpr std::int64_t kScratchAlignment = 256;  // the library demands it
inline constexpr std::int64_t kMaxScratchBytes = kLibraryScratchBytes - kScratchAlignment;

// Used by one thread at a time; the device must outlive it.
class LibraryProduct {
 public:
  LibraryProduct(const Device& device, const MatmulShape& shape);

  cublasStatus_t run(const Stream& stream, const MatmulOperands& operands, const Algorithm& algorithm) const;
  // In the library's order, the one it thinks fastest first; none that adds in an order of its own.
  std::vector<Algorithm> propose() const;
  // Whether this library runs an algorithm that was chosen earlier, in the scratch it then needed.
  bool still_runs(const Algorithm& algorithm) const;

 private:
  cublasLtHandle_t handle_;  // the device's
  CublasLtHandle<cublasLtMatmulDescOpaque_t> desc_;
  CublasLtHandle<cublasLtMatrixLayoutOpaque_t> first_, second_, output_;
  float beta_;
  bool bias_;
};

}  // namespace draftsmith::cuda
