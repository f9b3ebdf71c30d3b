#include "model/micro_batch.h"

#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tensor/arena.h"

namespace draftsmith {
namespace {

using testing::ElementsAre;

struct Packed {
  Packed(const BatchBudget& budget, std::int64_t window = 0)
      : budget(budget), builder(budget, shape(budget, window)) {
    Carver measure;
    carve_micro_batch(measure, budget);
    arena = Arena(Device{}, measure.peak());
    Carver carver = arena.carver();
    batch = carve_micro_batch(carver, budget);
    builder.begin(batch);
  }
  static DrafterShape shape(const BatchBudget& budget, std::int64_t window) {
    return {
        .vocabulary = 100, .block_size = budget.block_size, .mask_token_id = 99, .sliding_window = window};
  }
  template <typename E>
  static std::vector<E> list(Vector<E> vector, std::int64_t first, std::int64_t count) {
    return {vector.data + first, vector.data + first + count};
  }

  BatchBudget budget;
  Arena arena;
  MicroBatch batch;
  MicroBatchBuilder builder;
};

std::vector<std::int32_t> ids(int first, int count) {
  std::vector<std::int32_t> out(count);
  std::iota(out.begin(), out.end(), first);
  return out;
}

TEST(MicroBatch, ABlockSeesItsDocumentStrictlyBeforeItsAnchor) {
  Packed packed({.context_tokens = 12, .blocks = 4, .block_size = 3, .loss_chunk_rows = 4});
  packed.builder.add_document(ids(10, 4), std::vector<std::uint8_t>(4, 1), std::vector<std::int32_t>{0, 2});
  packed.builder.add_document(ids(20, 5), std::vector<std::uint8_t>(5, 1), std::vector<std::int32_t>{3});
  const BatchCounts counts = packed.builder.finish();
  EXPECT_EQ(counts.documents, 2);
  EXPECT_EQ(counts.blocks, 3);
  EXPECT_THAT(Packed::list(packed.batch.draft_tokens, 0, 9), ElementsAre(10, 99, 99, 12, 99, 99, 23, 99, 99));
  EXPECT_THAT(Packed::list(packed.batch.draft_positions, 0, 9), ElementsAre(0, 1, 2, 2, 3, 4, 3, 4, 5));
  EXPECT_THAT(Packed::list(packed.batch.context_begin, 0, 9), ElementsAre(0, 0, 0, 0, 0, 0, 4, 4, 4));
  EXPECT_THAT(Packed::list(packed.batch.context_end, 0, 12),
              ElementsAre(0, 0, 0, 2, 2, 2, 7, 7, 7, -1, -1, -1));
  EXPECT_THAT(Packed::list(packed.batch.document_begin, 0, 12),
              ElementsAre(0, 0, 0, 0, 4, 4, 4, 4, 4, 9, 10, 11));
  EXPECT_THAT(Packed::list(packed.batch.causal_end, 7, 5), ElementsAre(8, 9, 10, 11, 12));
}

// Slot k of the block at anchor a is supervised when a + k lies in the document and the mask says so; slot 0
// never is.
TEST(MicroBatch, OnlySupervisedSlotsReachTheHead) {
  Packed packed({.context_tokens = 8, .blocks = 3, .block_size = 4, .loss_chunk_rows = 8});
  packed.builder.add_document(ids(10, 6), std::vector<std::uint8_t>{0, 1, 1, 0, 1, 1},
                              std::vector<std::int32_t>{1, 4});
  const BatchCounts counts = packed.builder.finish();
  EXPECT_EQ(counts.supervised, 3);
  EXPECT_EQ(counts.loss_chunks, 1);
  EXPECT_THAT(Packed::list(packed.batch.loss_index, 0, 5), ElementsAre(1, 3, 5, -1, -1));
  EXPECT_THAT(Packed::list(packed.batch.draft_loss_rows, 0, 12),
              ElementsAre(-1, 0, -1, 1, -1, 2, -1, -1, -1, -1, -1, -1))
      << "the inverse of loss_index";
  EXPECT_THAT(Packed::list(packed.batch.loss_labels, 0, 5), ElementsAre(12, 14, 15, -1, -1));
  EXPECT_THAT(Packed::list(packed.batch.loss_offsets, 0, 3), ElementsAre(1, 3, 1));
  EXPECT_THAT(Packed::list(packed.batch.loss_blocks, 0, 3), ElementsAre(0, 0, 1));
}

TEST(MicroBatch, ABlockNeverStraddlesTwoChunks) {
  Packed packed({.context_tokens = 16, .blocks = 5, .block_size = 4, .loss_chunk_rows = 4});
  packed.builder.add_document(ids(10, 16), std::vector<std::uint8_t>(16, 1),
                              std::vector<std::int32_t>{0, 2, 4, 6, 8});
  const BatchCounts counts = packed.builder.finish();
  EXPECT_EQ(counts.supervised, 15);
  EXPECT_EQ(counts.loss_chunks, 5) << "three rows a block, four a chunk";
  for (std::int64_t row = 0; row < packed.budget.loss_rows(); ++row) {
    EXPECT_EQ(packed.batch.loss_index[row] < 0, row % 4 == 3 || row >= 20) << row;
  }
}

TEST(MicroBatch, TheWorstBudgetHoldsEveryBlock) {
  for (const std::int64_t size : {2, 3, 8, 16}) {
    for (const std::int64_t chunk : {size - 1, size, size + 3, 3 * size, std::int64_t{64}}) {
      const BatchBudget budget{
          .context_tokens = 100, .blocks = 30, .block_size = size, .loss_chunk_rows = chunk};
      Packed packed(budget);
      std::vector<std::int32_t> anchors;
      for (int i = 0; i < 30; ++i) anchors.push_back(2 * i);
      packed.builder.add_document(ids(0, 100), std::vector<std::uint8_t>(100, 1), anchors);
      EXPECT_EQ(packed.builder.finish().supervised, 30 * (size - 1));
    }
  }
}

// The window counts the slot's own position: the oldest visible one is a + k - (W - 1), never past the
// anchor.
TEST(MicroBatch, SlidingWindowsAtTheirEdge) {
  for (const std::int64_t window : {4, 5, 6}) {
    Packed packed({.context_tokens = 12, .blocks = 1, .block_size = 4, .loss_chunk_rows = 4}, window);
    packed.builder.add_document(ids(10, 12), std::vector<std::uint8_t>(12, 1), std::vector<std::int32_t>{5});
    packed.builder.finish();
    for (std::int64_t k = 0; k < 4; ++k) {
      for (std::int64_t position = 0; position < 5; ++position) {
        const bool seen = position >= packed.batch.sliding_begin[k] && position < packed.batch.context_end[k];
        EXPECT_EQ(seen, 5 + k - position < window)
            << "window " << window << " slot " << k << " position " << position;
      }
    }
  }
}

TEST(DrawAnchors, TakesValidPositionsWithoutReplacementInOrder) {
  const std::vector<std::uint8_t> mask{1, 1, 1, 0, 1, 1, 1, 1, 0, 1};
  std::vector<std::int32_t> anchors;
  draw_anchors(mask, 100, Random(1, RandomStream::anchors), anchors);
  EXPECT_THAT(anchors, ElementsAre(0, 1, 4, 5, 6)) << "a position and the next one are supervised";
  draw_anchors(mask, 3, Random(1, RandomStream::anchors), anchors);
  EXPECT_EQ(anchors.size(), 3u);
  EXPECT_TRUE(std::is_sorted(anchors.begin(), anchors.end()));
}

// The last layer's tail and the head run on all rows of the loss: few of them may be padding.
TEST(LossChunks, HaveRowsForNoMoreThanABlockAChunkTooMany) {
  for (const std::int64_t block_size : {2, 4, 8, 16, 40}) {
    for (const std::int64_t blocks : {1, 7, 100, 150, 256, 1000, 2048}) {
      const BatchBudget budget{.blocks = blocks,
                               .block_size = block_size,
                               .loss_chunk_rows = usual_loss_chunk_rows(blocks, block_size)};
      EXPECT_GE(budget.loss_rows(), blocks * (block_size - 1));
      EXPECT_LT(budget.loss_rows(), (blocks + budget.loss_chunks()) * (block_size - 1))
          << blocks << " blocks of " << block_size;
    }
  }
}

TEST(LossChunks, HoldWholeBlocksAndAtMostAboutTwoThousandRows) {
  for (std::int64_t block_size = 2; block_size <= 40; ++block_size) {
    for (const std::int64_t blocks : {1, 7, 256, 2048}) {
      const std::int64_t rows = usual_loss_chunk_rows(blocks, block_size);
      EXPECT_EQ(rows % (block_size - 1), 0) << block_size;
      EXPECT_GE(rows, std::min<std::int64_t>(1024, blocks * (block_size - 1)));
      EXPECT_LE(rows, 2048);
    }
  }
  EXPECT_EQ(usual_loss_chunk_rows(2048, 16), 1920) << "2048 blocks of 15 rows are 16 full chunks";
}

TEST(DrawAnchors, EveryPositionHasTheSameChance) {
  const std::vector<std::uint8_t> mask(11, 1);  // ten valid anchors
  std::vector<int> counts(10);
  std::vector<std::int32_t> anchors;
  const int draws = 20000;
  for (int i = 0; i < draws; ++i) {
    draw_anchors(mask, 3, Random(9, RandomStream::anchors, i), anchors);
    for (const auto anchor : anchors) ++counts[anchor];
  }
  // Binomial with p = 0.3: five deviations.
  for (const int count : counts) EXPECT_NEAR(count, 0.3 * draws, 5 * std::sqrt(draws * 0.3 * 0.7));
}

TEST(DrawAnchors, AreNoneWhereNothingIsSupervised) {
  std::vector<std::int32_t> anchors{1, 2};
  draw_anchors(std::vector<std::uint8_t>{0, 1, 0, 1}, 4, Random(1, RandomStream::anchors), anchors);
  EXPECT_TRUE(anchors.empty());
  draw_anchors({}, 4, Random(1, RandomStream::anchors), anchors);
  EXPECT_TRUE(anchors.empty());
}

}  // namespace
}  // namespace draftsmith
