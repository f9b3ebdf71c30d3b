#include "model/loss.h"

#include <gtest/gtest.h>

#include "tensor/carver.h"

namespace draftsmith {
namespace {

template <typename T>
std::int64_t stride_of_logits(std::int64_t vocabulary) {
  Carver carver;
  const LossShape shape{.budget = {.context_tokens = 8, .blocks = 2, .block_size = 4, .loss_chunk_rows = 6},
                        .width = 8,
                        .vocabulary = vocabulary,
                        .settings = {}};
  const LossScratch<T> scratch = carve_loss_scratch<T>(carver, shape);
  EXPECT_EQ(scratch.logits.columns, vocabulary);
  return scratch.logits.stride;
}

// A table with one token added is no reason to leave the fast products.
TEST(Loss, RowsOfLogitsBeginOnSixteenBytes) {
  EXPECT_EQ(stride_of_logits<bf16>(32001), 32008);
  EXPECT_EQ(stride_of_logits<float>(32001), 32004);
  EXPECT_EQ(stride_of_logits<bf16>(32000), 32000);
}

}  // namespace
}  // namespace draftsmith
