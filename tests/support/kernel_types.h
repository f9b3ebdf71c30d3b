// The storage types that kernel tests run with, readable in test names.
#pragma once

#include <string>
#include <type_traits>

#include <gtest/gtest.h>

#include "base/number.h"

namespace draftsmith::test {

using StorageTypes = testing::Types<float, bf16>;

struct StorageName {
  template <typename T>
  static std::string GetName(int) {
    return std::is_same_v<T, bf16> ? "bf16" : "float32";
  }
};

}  // namespace draftsmith::test
