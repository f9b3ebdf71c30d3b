// What the products of a CPU device share: the general one of the GEMM library and the one of few rows.
#pragma once

#include <memory>

#include "kernels/matmul.h"

namespace draftsmith::cpu {

class CpuMatmul : public PreparedMatmul {
 public:
  virtual void run(const Stream& stream, const MatmulOperands& operands) const = 0;
};

// nt with at most kFewRows rows: few_rows.cpp.
std::unique_ptr<PreparedMatmul> prepare_few_rows(const MatmulShape& shape);

}  // namespace draftsmith::cpu
