// Which algorithm of cuBLASLt makes a product: the fastest of those it proposes, by measuring. An algorithm whose bits
// differ between two runs is left out, whatever the reason.
#pragma once

#include "device/device.h"
#include "kernels/cuda/choices.h"
#include "kernels/cuda/library_product.h"
#include "kernels/matmul.h"

namespace draftsmith::cuda {

// Allocates operands of `shape`, that of `product`, and frees them; blocks: some 30 runs of the product. Throws Error when
// no algorithm runs and repeats its bits.
Algorithm choose_algorithm(const Device& device, const MatmulShape& shape, const LibraryProduct& product);

}  // namespace draftsmith::cuda
