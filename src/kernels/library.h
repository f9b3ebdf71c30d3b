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

// What a measuring launcher does about a product that it meets: find out how much scratch it needs, which takes
// no memory of the device, or prepare it.
enum class Preparation { sizes, products };

class MatmulLibrary {
 public:
  using Prepare = std::unique_ptr<PreparedMatmul> (*)(const Device&, const MatmulShape&,
                                                      const std::string& choice);
  // Null: only a prepared product knows.
  using ScratchBytes = std::int64_t (*)(const Device&, const MatmulShape&);
  MatmulLibrary(const Device& device, Prepare prepare, ScratchBytes scratch_bytes_of = nullptr)
      : device_(device), prepare_(prepare), scratch_bytes_of_(scratch_bytes_of) {}

  // From now on what `choices` holds is prepared as it says. Where they are stored ones, find()
  // throws Error for a product that they lack or that cannot be prepared so any more.
  void use(DeviceChoices choices, std::string place);
  // What is prepared.
  DeviceChoices choices() const;

  void set_preparation(Preparation preparation) { preparation_ = preparation; }
  // A product that a run will find(): prepares it, or its scratch.
  void meet(const MatmulShape& shape);
  // One that runs beside other launches, and needs scratch of its own.
  void meet_aside(const MatmulShape& shape);

  // Throws Error when no kernel supports the shape.
  const PreparedMatmul& find(const MatmulShape& shape);

  // What the largest prepared product, or other launch, needs beside its operands, and behind it what the largest product
  // aside does. Each kind runs one after another and shares its own.
  std::int64_t scratch_bytes() const;
  // Another launch than a product needs that much.
  void reserve_scratch(std::int64_t bytes) { reserved_bytes_ = std::max(reserved_bytes_, bytes); }
  void set_scratch(Vector<std::byte> scratch) { scratch_ = scratch; }
  Vector<std::byte> scratch() const { return scratch_.slice(0, scratch_.size - aside_bytes_); }
  Vector<std::byte> scratch_aside() const {
    return scratch_.slice(scratch_.size - aside_bytes_, aside_bytes_);
  }

  // A line about a launch that was measured; the same once only.
  void note(const std::string& line);
  const std::vector<std::string>& notes() const { return notes_; }

  // One line a product: shape and the algorithm chosen.
  std::vector<std::string> describe() const;

 private:
  const Device& device_;
  Prepare prepare_;
  ScratchBytes scratch_bytes_of_;
  Preparation preparation_ = Preparation::products;
  DeviceChoices chosen_;
  std::string place_;  // where they are stored; empty: what they lack is chosen anew
  std::vector<std::unique_ptr<PreparedMatmul>> prepared_;
  std::vector<std::string> notes_;
  std::int64_t reserved_bytes_ = 0, aside_bytes_ = 0;
  Vector<std::byte> scratch_;
};

}  // namespace draftsmith
