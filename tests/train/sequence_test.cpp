#include "train/sequence.h"

#include <string>

#include <gtest/gtest.h>

namespace draftsmith {
namespace {

// "1 1 e1 e1 2 2": the steps of all micro-batches, evaluations marked.
std::string walk(const SequencePlan& plan) {
  std::string text;
  SequenceCursor cursor(plan);
  std::int64_t index = 0;
  while (const auto item = cursor.next()) {
    EXPECT_EQ(item->index, index++);
    const bool evaluation = item->kind == SequenceItem::Kind::evaluation;
    text += (item->first && index > 1 ? " | " : item->first ? "" : " ");
    text += (evaluation ? "e" : "") + std::to_string(item->step);
    EXPECT_EQ(item->first, item->part == 0);
  }
  EXPECT_EQ(index, plan.micro_batches());
  return text;
}

TEST(Sequence, StepsFollowEachOtherWithEvaluationsBetween) {
  const SequencePlan plan{
      .last_step = 3, .step_micro_batches = 2, .evaluation_every = 2, .evaluation_micro_batches = 1};
  EXPECT_EQ(walk(plan), "1 1 | 2 2 | e2 | 3 3 | e3");  // the last step is always evaluated
}

TEST(Sequence, SaysWhetherTrainingFollowsAStep) {
  const SequencePlan plan{
      .last_step = 5, .step_micro_batches = 1, .evaluation_every = 2, .evaluation_micro_batches = 1};
  EXPECT_EQ(walk(plan), "1 | 2 | e2 | 3 | 4 | e4 | 5 | e5");
  EXPECT_TRUE(plan.training_follows(1));
  EXPECT_FALSE(plan.training_follows(2));
  EXPECT_TRUE(plan.training_follows(3));
  EXPECT_FALSE(plan.training_follows(5));
}

TEST(Sequence, WithoutEvaluationThereAreStepsOnly) {
  EXPECT_EQ(walk({.last_step = 2, .step_micro_batches = 1}), "1 | 2");
}

TEST(Sequence, AResumedRunBeginsLaterAndMayOweAnEvaluation) {
  SequencePlan plan{.first_step = 5,
                    .last_step = 6,
                    .step_micro_batches = 1,
                    .evaluation_every = 4,
                    .evaluation_micro_batches = 2};
  EXPECT_EQ(walk(plan), "5 | 6 | e6 e6");
  plan.evaluate_first = true;
  EXPECT_EQ(walk(plan), "e4 e4 | 5 | 6 | e6 e6");
}

}  // namespace
}  // namespace draftsmith
