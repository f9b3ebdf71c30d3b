#include "kernels/tables.h"

namespace draftsmith {

template <typename T>
const Kernels<T>& kernels_of(const Device& device) {
  return device.name.kind == DeviceKind::cuda ? cuda_kernels<T>() : cpu_kernels<T>();
}

template const Kernels<float>& kernels_of(const Device&);
template const Kernels<bf16>& kernels_of(const Device&);

}  // namespace draftsmith
