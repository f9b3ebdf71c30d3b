#include "train/evaluation.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "device/memory.h"
#include "train/tiny_run.h"

namespace draftsmith {
namespace {

using Mask = std::vector<std::uint8_t>;
using Runs = std::vector<std::int32_t>;

TEST(Walk, EachCycleCommitsItsRunAndABonus) {
  // Answer at 2..8. From 2: 2 accepted and a bonus, to 5; from 5: none and a bonus, to 6; from 6: the run of
  // 2 reaches the end token.
  const Walk walk = walk_document(Mask{0, 0, 1, 1, 1, 1, 1, 1, 1}, Runs{0, 0, 2, 3, 3, 0, 2, 1, 0});
  EXPECT_EQ(walk.cycles, 3);
  EXPECT_EQ(walk.committed, 3 + 1 + 2);
}

TEST(Walk, ACycleCutByTheEndCountsUpToIt) {
  // One cycle accepts all of 1..3: no bonus follows the end token.
  const Walk walk = walk_document(Mask{1, 1, 1, 1}, Runs{3, 0, 0, 0});
  EXPECT_EQ(walk.cycles, 1);
  EXPECT_EQ(walk.committed, 3);
}

TEST(Walk, NothingAcceptedIsOneTokenACycle) {
  const Walk walk = walk_document(Mask{0, 1, 1, 1, 1}, Runs{0, 0, 0, 0, 0});
  EXPECT_EQ(walk.cycles, 3);
  EXPECT_EQ(walk.committed, 3);
}

TEST(Walk, AnswersOfAConversationAreWalkedOneByOne) {
  const Walk walk = walk_document(Mask{1, 1, 0, 1, 1, 1}, Runs{1, 0, 0, 2, 0, 0});
  EXPECT_EQ(walk.cycles, 2);
  EXPECT_EQ(walk.committed, 1 + 2);
}

TEST(Walk, ALoneSupervisedTokenHasNoCycle) {
  EXPECT_EQ(walk_document(Mask{0, 1, 0}, Runs{0, 0, 0}).cycles, 0);
}

TEST(EvaluationPlan, EveryValidAnchorOfEveryDocumentHasOnePlace) {
  const Corpus corpus = made_up_corpus(9, 2);
  for (const std::int64_t blocks : {3, 7, 40}) {  // fewer than a document has, and more
    const EvaluationPlan plan(corpus, 7, {.context_tokens = 48, .blocks = blocks, .block_size = 4});
    EXPECT_EQ(plan.documents(), 7);
    std::vector<std::vector<std::int32_t>> seen(7);
    for (std::int64_t i = 0; i < plan.micro_batches(); ++i) {
      std::int64_t used = 0;
      for (const auto& piece : plan.pieces(i)) {
        used += piece.count;
        const auto anchors = plan.anchors(piece);
        seen[piece.document].insert(seen[piece.document].end(), anchors.begin(), anchors.end());
      }
      EXPECT_LE(used, blocks);
    }
    for (std::int64_t document = 0; document < 7; ++document) {
      std::vector<std::int32_t> expected;
      for (std::int64_t p = 0; p < std::ssize(corpus[document].ids); ++p) {
        if (valid_anchor(corpus[document].loss_mask, p)) expected.push_back(static_cast<std::int32_t>(p));
      }
      EXPECT_EQ(seen[document], expected);
    }
  }
}

TEST(EvaluationTally, TurnsPredictionsIntoRunsAndHolesEndThem) {
  Corpus corpus;
  corpus.append({.ids = {5, 6, 7, 8, 9, 10}, .loss_mask = {0, 1, 1, 1, 1, 1}, .id = "a"}, 100);
  const BatchBudget budget{.context_tokens = 8, .blocks = 4, .block_size = 4};
  const EvaluationPlan plan(corpus, 1, budget);
  ASSERT_EQ(plan.micro_batches(), 1);
  SlotRing ring({.budget = budget, .feature_row_bytes = 4}, 1);
  Slot& slot = *ring.wait(0, SlotState::free);
  MicroBatchBuilder builder(budget, {.block_size = 4, .mask_token_id = 0});
  slot.facts = plan.pack(builder, 0, slot.batch);
  EXPECT_EQ(slot.facts.attended_rows, 1 + 2 + 3 + 4);
  EXPECT_EQ(slot.facts.target_pairs, 1 + 2 + 3 + 4 + 5 + 6);
  // Anchors 1, 2, 3, 4. Right but for: the first slot of anchor 2's block, the second of anchor 1's.
  for (std::int64_t row = 0; row < slot.batch.loss_index.size; ++row) {
    const bool wrong = (slot.batch.loss_blocks[row] == 1 && slot.batch.loss_offsets[row] == 1) ||
                       (slot.batch.loss_blocks[row] == 0 && slot.batch.loss_offsets[row] == 2);
    slot.predictions[row] = slot.batch.loss_labels[row] + (wrong ? 1 : 0);
  }
  std::fill(slot.sums.begin(), slot.sums.end(), 1.0);
  slot.sums[LossSums::kNumerator] = 6;
  slot.sums[LossSums::kDenominator] = 4;
  EvaluationTally tally(plan, LossKind::dflash, 4);
  tally.begin();
  tally.add(0, slot);
  const EvaluationRecord record = tally.result();
  // From 1: one accepted, bonus: 3. From 3: both accepted, the end at 5.
  EXPECT_DOUBLE_EQ(record.acceptance, (2.0 + 2.0) / 2.0);
  EXPECT_DOUBLE_EQ(record.loss, 1.5);
  EXPECT_EQ(record.conversations, 1);
}

// Not just the walking of what was predicted.
TEST(Evaluation, ItsSecondsAreThoseFromTheEndOfTheStep) {
  TinyRun run;
  run.evaluation_documents = 2;
  constexpr double kPause_s = 0.2;
  run.hooks.at = [&](PipelinePoint point, std::int64_t index, Slot*) {
    const bool first_of_evaluation = index == *run.config.train.steps;  // one drafter, a micro-batch a step
    if (point == PipelinePoint::drafter_pass && first_of_evaluation)
      std::this_thread::sleep_for(std::chrono::duration<double>(kPause_s));
  };
  run.train();
  EXPECT_GE(run.evaluations().back().seconds, kPause_s);
}

TEST(Evaluation, IsNotPartOfTheSpeedOfTheStepAfterIt) {
  TinyRun run;
  run.evaluation_documents = 2;
  run.config.train.eval.every = 3;
  constexpr double kPause_s = 0.5;
  run.hooks.at = [&](PipelinePoint point, std::int64_t index, Slot*) {
    if (point == PipelinePoint::drafter_pass && index == 3) {  // the first of the evaluation
      std::this_thread::sleep_for(std::chrono::duration<double>(kPause_s));
    }
  };
  run.train();
  const StepRecord after = run.steps()[3];
  EXPECT_GT(after.tokens_per_second, static_cast<double>(after.tokens) / kPause_s);
}

}  // namespace
}  // namespace draftsmith
