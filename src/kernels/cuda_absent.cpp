// Built instead of cuda/ without CUDA: no GPU can have been opened, so nobody asks for its kernels.
#include "kernels/kernels.h"

namespace draftsmith {

template <typename T>
const Kernels<T>& cuda_kernels() {
  check_failed("cuda_kernels()", "no GPU can have been opened", __FILE__, __LINE__);
}

template const Kernels<float>& cuda_kernels<float>();
template const Kernels<bf16>& cuda_kernels<bf16>();

}  // namespace draftsmith
