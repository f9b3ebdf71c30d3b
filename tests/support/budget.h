// How far a kernel's result may be from the exact one, derived from how it is made and never tuned:
//   |actual - expected| <= rounding_T * |expected| * stored + rounding_float * terms * scale
// `stored` counts roundings to the storage type that an entry passes through one after another. `terms` is
// the length of the longest chain of float roundings (terms of a sum, plus the operations on each); `scale`
// bounds the sum of the magnitudes of what is added up (the classic bound of a sum's error).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "tensor/tensor.h"

namespace draftsmith::test {

struct Budget {
  DType stored_as = DType::float32;
  int stored = 1;
  std::int64_t terms = 1;
  double scale = 0;  // 0: the largest magnitude expected
};

inline double storage_roundoff(DType type) {
  return type == DType::bf16 ? kUnitRoundoff<bf16> : kUnitRoundoff<float>;
}

inline double largest_magnitude(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

// Fails naming the first entry that is off; what is not a number always is.
inline void expect_close(const std::vector<double>& actual, const std::vector<double>& expected,
                         const Budget& budget) {
  ASSERT_EQ(actual.size(), expected.size());
  const double scale = budget.scale > 0 ? budget.scale : largest_magnitude(expected);
  const double summing = kUnitRoundoff<float> * static_cast<double>(budget.terms) * scale;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double allowed =
        storage_roundoff(budget.stored_as) * budget.stored * (std::abs(expected[i]) + summing) + summing;
    ASSERT_LE(std::abs(actual[i] - expected[i]), allowed)
        << "entry " << i << " of " << actual.size() << ": " << actual[i] << " instead of " << expected[i];
  }
}

// Entry by entry: `errors` bounds each entry's float error, in units of the float's roundoff.
inline void expect_within(const std::vector<double>& actual, const std::vector<double>& expected,
                          const std::vector<double>& errors, DType stored_as) {
  ASSERT_EQ(actual.size(), expected.size());
  ASSERT_EQ(errors.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double summing = kUnitRoundoff<float> * errors[i];
    const double allowed = storage_roundoff(stored_as) * (std::abs(expected[i]) + summing) + summing;
    ASSERT_LE(std::abs(actual[i] - expected[i]), allowed)
        << "entry " << i << " of " << actual.size() << ": " << actual[i] << " instead of " << expected[i];
  }
}

}  // namespace draftsmith::test
