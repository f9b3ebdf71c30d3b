#include "train/packer.h"

#include <set>

#include <gtest/gtest.h>

#include "device/memory.h"
#include "train/tiny_run.h"

namespace draftsmith {
namespace {

constexpr BatchBudget kBudget{.context_tokens = 48, .blocks = 10, .block_size = 4};

DrafterShape tiny_shape() { return {.block_size = 4, .taps = {0}, .mask_token_id = 95}; }

PackerSettings settings_of(std::optional<std::int64_t> epochs) {
  return {.seed = 3, .anchors_per_document = 4, .epochs = epochs, .budget = kBudget};
}

// The host memory of one micro-batch.
struct Batch {
  Batch() {
    Carver count;
    carve_batch(count, kBudget);
    memory = Buffer::pinned(count.peak());
    Carver carver(memory.data(), memory.bytes());
    carved = carve_batch(carver, kBudget);
  }
  std::vector<std::byte> bytes() const { return {carved.bytes.begin(), carved.bytes.end()}; }

  Buffer memory;
  CarvedBatch carved;
};

TEST(Sampler, AnEpochIsAPermutationAndAPureFunctionOfSeedAndEpoch) {
  const auto draw_epoch = [](std::uint64_t seed, std::int64_t epoch) {
    Sampler sampler({.seed = seed, .documents = 50}, {.epoch = epoch});
    std::vector<std::int64_t> documents;
    for (int i = 0; i < 50; ++i, sampler.advance()) documents.push_back(sampler.peek()->document);
    return documents;
  };
  const auto first = draw_epoch(1, 0);
  EXPECT_EQ(std::set<std::int64_t>(first.begin(), first.end()).size(), 50u);
  EXPECT_EQ(first, draw_epoch(1, 0));
  EXPECT_NE(first, draw_epoch(1, 1));
  EXPECT_NE(first, draw_epoch(2, 0));
}

TEST(Sampler, TheLastEpochIsTheEnd) {
  Sampler sampler({.documents = 2, .epochs = 1}, {});
  EXPECT_TRUE(sampler.peek());
  sampler.advance();
  EXPECT_TRUE(sampler.peek());
  sampler.advance();
  EXPECT_FALSE(sampler.peek());
}

TEST(Packer, APositionContinuesBitForBit) {
  const Corpus corpus = made_up_corpus(20, 1);
  Packer straight(corpus, tiny_shape(), settings_of(std::nullopt), {});
  Batch expected, found;
  DataPosition position;
  for (int i = 0; i < 25; ++i) {  // several epochs
    const BatchFacts facts = straight.next(expected.carved.batch);
    Packer resumed(corpus, tiny_shape(), settings_of(std::nullopt), position);
    const BatchFacts again = resumed.next(found.carved.batch);
    EXPECT_EQ(expected.bytes(), found.bytes()) << "micro-batch " << i;
    EXPECT_EQ(facts.after, again.after);
    position = facts.after;
  }
  EXPECT_GT(position.epoch, 1);
}

TEST(Packer, EveryDocumentComesOncePerEpochWithinTheBudget) {
  const Corpus corpus = made_up_corpus(20, 1);
  Packer packer(corpus, tiny_shape(), settings_of(2), {});
  Batch batch;
  std::int64_t documents = 0, micro_batches = 0, supervised = 0;
  for (;;) {
    const BatchFacts facts = packer.next(batch.carved.batch);
    if (facts.counts.documents == 0) break;
    ++micro_batches;
    EXPECT_LE(facts.counts.context_tokens, kBudget.context_tokens);
    EXPECT_LE(facts.counts.blocks, kBudget.blocks);
    EXPECT_EQ(facts.counts.documents, facts.counts.documents_with_blocks);
    EXPECT_LE(facts.covered_tokens, facts.supervised_tokens);
    documents += facts.counts.documents;
    supervised += facts.supervised_tokens;
  }
  EXPECT_EQ(documents, 40);
  EXPECT_EQ(supervised, 2 * corpus.counts().supervised_tokens);
  EXPECT_EQ(micro_batches, count_micro_batches(corpus, settings_of(2)));
  EXPECT_EQ(packer.next(batch.carved.batch).counts.blocks, 0);  // and so on for ever
}

TEST(Packer, AnchorsAreDrawnAnewEachEpoch) {
  const Corpus corpus = made_up_corpus(1, 5);
  std::set<std::vector<std::int32_t>> anchors;
  Batch batch;
  for (int epoch = 0; epoch < 8; ++epoch) {
    Packer one(corpus, tiny_shape(), {.seed = 3, .anchors_per_document = 2, .budget = kBudget},
               {.epoch = epoch});
    one.next(batch.carved.batch);
    anchors.insert({batch.carved.batch.context_end[0], batch.carved.batch.context_end[4]});
  }
  EXPECT_GT(anchors.size(), 2u);
}

TEST(Coverage, CountsSupervisedTokensInSomeBlockOnce) {
  const std::vector<std::uint8_t> loss_mask = {0, 1, 1, 1, 0, 1, 1, 1};
  const auto covered = [&](std::vector<std::int32_t> anchors) {
    return count_covered(loss_mask, anchors, 3);
  };
  EXPECT_EQ(covered({}), 0);
  EXPECT_EQ(covered({1}), 3);     // 1, 2, 3
  EXPECT_EQ(covered({1, 2}), 3);  // 4 is not supervised
  EXPECT_EQ(covered({2, 5}), 2 + 3);
  EXPECT_EQ(covered({6}), 2);  // the document ends
}

}  // namespace
}  // namespace draftsmith
