// Memory for what a kernel writes and reads. Every byte starts as 0xff, which is NaN in every floating type
// and -1 in integers; what lies before, after and between the rows must still be so afterwards. It lies where
// the device under test sees it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "base/arithmetic.h"
#include "base/random.h"
#include "support/devices.h"
#include "tensor/tensor.h"

namespace draftsmith::test {

template <typename T>
class Guarded {
 public:
  // `gap` is the distance in elements between the end of a row and the next; `offset` shifts the first row
  // against the alignment.
  explicit Guarded(std::int64_t rows = 0, std::int64_t columns = 0, std::int64_t gap = 0,
                   std::int64_t offset = 0)
      : rows_(rows),
        columns_(columns),
        stride_(device_options().aligned ? round_up(columns + gap, kGuard) : columns + gap),
        first_(kGuard + (device_options().aligned ? 0 : offset)),
        memory_(static_cast<std::size_t>(first_ + rows * stride_ + kGuard)) {
    poison();
  }

  void poison() { std::memset(static_cast<void*>(memory_.data()), 0xff, memory_.size() * sizeof(T)); }
  Matrix<T> matrix() { return {memory_.data() + first_, rows_, columns_, stride_}; }
  Vector<T> vector() { return {memory_.data() + first_, rows_ * columns_}; }

  void expect_guards_intact() const {
    std::vector<std::byte> untouched(sizeof(T), std::byte{0xff});
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(memory_.size()); ++i) {
      const std::int64_t place = i - first_;
      const bool inside = place >= 0 && place < rows_ * stride_ && place % stride_ < columns_;
      if (inside) continue;
      ASSERT_EQ(0, std::memcmp(&memory_[static_cast<std::size_t>(i)], untouched.data(), sizeof(T)))
          << "written outside, at element " << place << " of " << rows_ << "x" << columns_;
    }
  }

  // Standard normal numbers times `scale`, rounded to T.
  void fill_normal(std::uint32_t which, double scale = 1, double mean = 0) {
    const Random random(7, RandomStream::noise, which);
    for (std::int64_t r = 0; r < rows_; ++r) {
      for (std::int64_t c = 0; c < columns_; ++c) {
        const auto index = static_cast<std::uint64_t>(r * columns_ + c);
        matrix()(r, c) = static_cast<T>(static_cast<float>(mean + scale * random.normal(index)));
      }
    }
  }

  // The values without gaps, as double.
  std::vector<double> values() {
    std::vector<double> values;
    for (std::int64_t r = 0; r < rows_; ++r) {
      for (std::int64_t c = 0; c < columns_; ++c) values.push_back(static_cast<double>(matrix()(r, c)));
    }
    return values;
  }

  // The bytes without gaps, for comparing bit for bit.
  std::vector<std::byte> bits() {
    std::vector<std::byte> bytes;
    for (std::int64_t r = 0; r < rows_; ++r) {
      const auto* row = reinterpret_cast<const std::byte*>(matrix().row(r));
      bytes.insert(bytes.end(), row, row + columns_ * static_cast<std::int64_t>(sizeof(T)));
    }
    return bytes;
  }

 private:
  static constexpr std::int64_t kGuard = 64;
  std::int64_t rows_, columns_, stride_, first_;
  VisibleVector<T> memory_;
};

}  // namespace draftsmith::test
