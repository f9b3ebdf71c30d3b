// What the products of a GPU share: the general one of the GEMM library, the one of few rows, and the plain
// one for operands whose rows do not begin on 16 bytes.
#pragma once

#include <memory>

#include "kernels/matmul.h"

namespace draftsmith::cuda {

class CudaMatmul : public PreparedMatmul {
 public:
  virtual void run(const Stream& stream, const MatmulOperands& operands) const = 0;
};

// Scratch of every product of the library: the plan's bytes do not depend on what is chosen.
inline constexpr std::int64_t kLibraryScratchBytes = (std::int64_t{32} << 20) + 256;

// nt with at most kFewRows rows: few_rows.cu.
std::unique_ptr<CudaMatmul> prepare_few_rows(const MatmulShape& shape);
// Any form and stride, speed free: plain_matmul.cu.
std::unique_ptr<CudaMatmul> prepare_plain(const MatmulShape& shape);
// Rows on 16 bytes: library_matmul.cpp.
std::unique_ptr<CudaMatmul> prepare_library(const Device& device, const MatmulShape& shape,
                                            const std::string& choice);

}  // namespace draftsmith::cuda
