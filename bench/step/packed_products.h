// The yardstick on CPU devices: the products of a pass by oneDNN with operands in the blocked layouts that the library
// chooses itself, reordered once beforehand. The fastest that the library multiplies these shapes.
#pragma once

#include <memory>
#include <vector>

#include "bench/step/recorder.h"

namespace draftsmith::bench {

class PackedProducts {
 public:
  // Prepares every shape once, with operands of its own.
  PackedProducts(const Device& device, const std::vector<LaunchedProduct>& products);
  ~PackedProducts();

  // All products of the pass, one after another. Blocks.
  void run();

 private:
  struct Packed;
  const int threads_;
  std::vector<std::unique_ptr<Packed>> shapes_;
  std::vector<std::size_t> order_;  // of the pass: places in shapes_
};

}  // namespace draftsmith::bench
