#include "train/useful_flops.h"

#include <gtest/gtest.h>

namespace draftsmith {
namespace {

// Multiply-adds by the sizes of what is multiplied, for a drafter of 2 layers, width 8, 4 heads of 4 (2 for keys and
// values), intermediate 12, 2 taps, vocabulary 100 and blocks of 3.
TEST(UsefulFlops, AreThoseOfTheProductsAndOfThePairsThatAreSeen) {
  const DrafterShape shape{.layers = 2,
                           .width = 8,
                           .intermediate = 12,
                           .query_heads = 4,
                           .kv_heads = 2,
                           .head_dim = 4,
                           .vocabulary = 100,
                           .block_size = 3,
                           .taps = {1, 2}};
  const BatchFacts facts{.counts = {.context_tokens = 10, .blocks = 2, .supervised = 4}, .attended_rows = 7};
  const double q = 8 * 16, o = 16 * 8, kv = 2 * 8 * 8, mlp = 3 * 8 * 12;
  const double draft_rows = 6 * 2 * (q + o + kv + mlp);
  const double fc = 10 * 16 * 8, context_kv = 10 * 2 * kv;
  const double attention =
      2 * 2 * 16 * 3 * (7 + 2 * 3);  // scores and values; each slot sees its context and its block
  const double head = 4 * 8 * 100;
  EXPECT_EQ(useful_evaluation_flops(shape, facts), 2 * (draft_rows + fc + context_kv + attention + head));
  // Backward: twice the products, but no gradient of the features and of the frozen head; attention forms scores again.
  EXPECT_EQ(useful_drafter_flops(shape, facts),
            2 * (3 * draft_rows + 2 * fc + 3 * context_kv + 3.5 * attention + 2 * head));
}

}  // namespace
}  // namespace draftsmith
