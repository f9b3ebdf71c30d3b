// The one place that knows which table of kernels a device launches.
#pragma once

#include "kernels/kernels.h"

namespace draftsmith {

template <typename T>
const Kernels<T>& kernels_of(const Device& device);

}  // namespace draftsmith
