// The prepared products of one device. A shape is prepared the first time it is met before seal(); a miss
// afterwards is a violation. Owned and used by one thread at a time (the main thread during set-up, then the
// device's).
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "kernels/matmul.h"

namespace draftsmith {

class MatmulLibrary {
 public:
  using Prepare = std::unique_ptr<PreparedMatmul> (*)(const Device&, const MatmulShape&);
  MatmulLibrary(const Device& device, Prepare prepare) : device_(device), prepare_(prepare) {}

  // Throws Error when no kernel supports the shape.
  const PreparedMatmul& find(const MatmulShape& shape);

  // What the largest prepared product, or other launch, needs beside its operands. Launches of one device run
  // one after another and share it.
  std::int64_t scratch_bytes() const;
  // Another launch than a product needs that much.
  void reserve_scratch(std::int64_t bytes) { reserved_bytes_ = std::max(reserved_bytes_, bytes); }
  void set_scratch(Vector<std::byte> scratch) { scratch_ = scratch; }
  Vector<std::byte> scratch() const { return scratch_; }

  // One line a product: shape and the algorithm chosen.
  std::vector<std::string> describe() const;

 private:
  const Device& device_;
  Prepare prepare_;
  std::vector<std::unique_ptr<PreparedMatmul>> prepared_;
  std::int64_t reserved_bytes_ = 0;
  Vector<std::byte> scratch_;
};

}  // namespace draftsmith
