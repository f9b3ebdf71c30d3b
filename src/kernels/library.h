// The prepared products of one device. A shape is prepared the first time it is met before seal(), as it was
// chosen before if it was; a miss afterwards is a violation. Owned and used by one thread at a time (the main thread during set-up, then the
// device's).
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "kernels/matmul.h"
#include "kernels/product_choices.h"

namespace draftsmith {

class MatmulLibrary {
 public:
  using Prepare = std::unique_ptr<PreparedMatmul> (*)(const Device&, const MatmulShape&,
                                                      const std::string& choice);
  MatmulLibrary(const Device& device, Prepare prepare) : device_(device), prepare_(prepare) {}

  // Before the first product: prepares what `choices` holds as it says. Where they are stored ones, find()
  // throws Error for a product that they lack or that cannot be prepared so any more.
  void use(DeviceChoices choices, std::string place);
  // What is prepared.
  DeviceChoices choices() const;

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
  DeviceChoices chosen_;
  std::string place_;  // where they are stored; empty: what they lack is chosen anew
  std::vector<std::unique_ptr<PreparedMatmul>> prepared_;
  std::int64_t reserved_bytes_ = 0;
  Vector<std::byte> scratch_;
};

}  // namespace draftsmith
