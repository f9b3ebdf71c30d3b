// Cuts one block of memory into views. A carver with nothing behind it only counts, so the code that lays
// memory out also measures it; what it counted, by name, is the plan that users see.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/arithmetic.h"
#include "tensor/tensor.h"

namespace draftsmith {

class Carver {
 public:
  static constexpr std::int64_t kAlignment = 64;

  Carver() = default;  // counts only
  Carver(std::byte* memory, std::int64_t bytes) : memory_(memory), bytes_(bytes) {}

  template <typename T>
  Vector<T> vector(std::int64_t size) {
    return {reinterpret_cast<T*>(take(size * static_cast<std::int64_t>(sizeof(T)))), size};
  }
  template <typename T>
  Matrix<T> matrix(std::int64_t rows, std::int64_t columns) {
    return {reinterpret_cast<T*>(take(rows * columns * static_cast<std::int64_t>(sizeof(T)))), rows, columns,
            columns};
  }

  // What follows is counted under this purpose ("weights", "saved activations", …) until the next call.
  void purpose(std::string_view name) { purpose_ = name; }

  // Temporary views: give_back(mark()) makes what was cut since free again. Peak remembers the largest
  // extent.
  std::int64_t mark() const { return used_; }
  void give_back(std::int64_t mark) { used_ = mark; }

  bool counting() const { return memory_ == nullptr; }
  std::int64_t used() const { return used_; }
  std::int64_t peak() const { return peak_; }
  // Bytes by purpose, of a carver that counts; their sum is the peak. A region used by turns counts where the extent grew.
  const std::map<std::string, std::int64_t>& bytes_by_purpose() const { return by_purpose_; }

 private:
  std::byte* take(std::int64_t bytes) {
    DRAFTSMITH_CHECK(bytes >= 0, "sizes are not negative");
    const std::int64_t begin = used_;
    used_ = begin + round_up(bytes, kAlignment);
    if (used_ > peak_) {
      if (counting()) by_purpose_[purpose_] += used_ - peak_;  // takes heap; a run's carvers only cut
      peak_ = used_;
    }
    if (counting()) return nullptr;
    DRAFTSMITH_CHECK(used_ <= bytes_, "the arena was measured by the code that cuts it");
    return memory_ + begin;
  }

  std::byte* memory_ = nullptr;
  std::int64_t bytes_ = 0;
  std::int64_t used_ = 0;
  std::int64_t peak_ = 0;
  std::string purpose_ = "other";
  std::map<std::string, std::int64_t> by_purpose_;
};

}  // namespace draftsmith
