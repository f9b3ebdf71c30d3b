// The algorithms that were chosen by measuring, kept in a file so that the next run need not measure: one
// file in Device::tuning_folder for each card, driver and library version. Several processes may use it at
// once: a choice is one line, appended by one write, and the first line of a product counts. A file that is
// absent, damaged or unwritable only costs measuring again.
//
// Format of `products-<card>-<driver>-<cublasLt version>.txt`, a line a product, fields separated by tabs:
//   product      MatmulShape::text() and the three strides
//   algorithm    cublasLtMatmulAlgo_t as 128 hexadecimal digits
//   scratch      bytes, decimal
//   check        CRC-32 (reflected, 0xEDB88320) of what comes before its tab, 8 hexadecimal digits
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <cublasLt.h>

#include "kernels/matmul.h"

namespace draftsmith::cuda {

struct ProductChoice {
  cublasLtMatmulAlgo_t algorithm{};
  std::int64_t scratch_bytes = 0;
};

std::optional<ProductChoice> kept_choice(const Device& device, const MatmulShape& shape);
void keep_choice(const Device& device, const MatmulShape& shape, const ProductChoice& choice);

// The line of a choice, with its newline, and back; nothing for a line that is damaged or of another product.
std::string choice_line(const MatmulShape& shape, const ProductChoice& choice);
std::optional<ProductChoice> read_choice_line(const MatmulShape& shape, const std::string& line);

}  // namespace draftsmith::cuda
