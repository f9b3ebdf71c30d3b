// The float32 kernels with every input and every stored activation rounded to bf16: what bf16 code is
// measured against.
#pragma once

#include "kernels/kernels.h"

namespace draftsmith {

const Kernels<float>& rounding_kernels();

}  // namespace draftsmith
