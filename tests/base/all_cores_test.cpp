#include "base/all_cores.h"

#include <atomic>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace draftsmith {
namespace {

TEST(AllCores, EveryPlaceIsInOneRange) {
  for (const std::int64_t count : {0, 1, 7, 8, 1000, 1001}) {
    std::vector<std::atomic<int>> visits(static_cast<std::size_t>(count));
    on_all_cores(count, 4, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
    });
    for (const std::atomic<int>& visit : visits) EXPECT_EQ(visit, 1);
  }
}

TEST(AllCores, LittleWorkStaysInTheCallingThread) {
  const std::thread::id here = std::this_thread::get_id();
  on_all_cores(7, 4, [&](std::int64_t, std::int64_t) { EXPECT_EQ(std::this_thread::get_id(), here); });
}

}  // namespace
}  // namespace draftsmith
