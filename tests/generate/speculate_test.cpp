#include "generate/speculate.h"

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "support/scripted_decoder.h"

namespace draftsmith {
namespace {

constexpr std::int64_t kBlock = 4;
constexpr std::int32_t kWrong = -7;

std::vector<std::int32_t> sequence(std::int32_t first, std::int32_t last) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(last - first + 1));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

// The sequence 0, 1, 2, ...; the first four tokens are the prompt.
struct Script {
  std::vector<std::int32_t> text = sequence(0, 39);
  std::vector<std::int32_t> drafts = text;

  GenerationResult run(const GenerationSettings& settings, const GenerationObserver& observer = {}) const {
    ScriptedDecoder decoder(text, drafts, kBlock);
    const PromptState prompt = run_prompt(decoder, std::span(text).first(4));
    return decode_speculatively(decoder, prompt, settings, observer);
  }
};

std::vector<std::int64_t> committed(const GenerationResult& result) {
  std::vector<std::int64_t> counts;
  for (const DraftCycle& cycle : result.cycles) counts.push_back(cycle.committed);
  return counts;
}

std::vector<std::int64_t> accepted(const GenerationResult& result) {
  std::vector<std::int64_t> counts;
  for (const DraftCycle& cycle : result.cycles) counts.push_back(cycle.accepted);
  return counts;
}

TEST(SpeculateTest, AcceptanceEndsAtTheFirstDifference) {
  const std::vector<std::int32_t> proposals{5, 6, 7};
  EXPECT_EQ(count_accepted(proposals, std::vector<std::int32_t>{5, 6, 7, 8}), 3);
  EXPECT_EQ(count_accepted(proposals, std::vector<std::int32_t>{5, 9, 7, 8}), 1);
  EXPECT_EQ(count_accepted(proposals, std::vector<std::int32_t>{9, 6, 7, 8}), 0);
}

// The prompt's own choice (4) belongs to no cycle.
TEST(SpeculateTest, ACycleCommitsTheAcceptedProposalsAndTheBonus) {
  Script script;
  script.drafts[10] = kWrong;  // the second cycle drafts 9, 10, 11
  const GenerationResult result = script.run({.max_new_tokens = 11});
  EXPECT_EQ(result.tokens, sequence(4, 14));
  EXPECT_EQ(committed(result), (std::vector<std::int64_t>{4, 2, 4}));
  EXPECT_EQ(accepted(result), (std::vector<std::int64_t>{3, 1, 3}));
  EXPECT_EQ(result.decoded(), 10);
}

TEST(SpeculateTest, ACycleCutByAStopTokenCountsUpToAndIncludingIt) {
  const GenerationResult result = Script().run({.max_new_tokens = 30, .stop_tokens = {10, 99}});
  EXPECT_EQ(result.tokens, sequence(4, 10));
  EXPECT_EQ(committed(result), (std::vector<std::int64_t>{4, 2}));
  EXPECT_EQ(accepted(result), (std::vector<std::int64_t>{3, 2}));
}

TEST(SpeculateTest, AStopTokenAsBonusCounts) {
  const GenerationResult result = Script().run({.max_new_tokens = 30, .stop_tokens = {8}});
  EXPECT_EQ(result.tokens, sequence(4, 8));
  EXPECT_EQ(committed(result), (std::vector<std::int64_t>{4}));
  EXPECT_EQ(accepted(result), (std::vector<std::int64_t>{3}));
}

TEST(SpeculateTest, ACycleCutByTheLengthCountsUpToIt) {
  const GenerationResult result = Script().run({.max_new_tokens = 7});
  EXPECT_EQ(result.tokens, sequence(4, 10));
  EXPECT_EQ(committed(result), (std::vector<std::int64_t>{4, 2}));
}

TEST(SpeculateTest, NothingIsDraftedAfterAStopTokenFromThePrompt) {
  EXPECT_TRUE(Script().run({.max_new_tokens = 30, .stop_tokens = {4}}).cycles.empty());
  EXPECT_TRUE(Script().run({.max_new_tokens = 1}).cycles.empty());
}

TEST(SpeculateTest, TheObserverSeesEveryTokenOnce) {
  Script script;
  script.drafts[6] = kWrong;
  std::vector<std::int32_t> seen;
  const GenerationResult result = script.run({.max_new_tokens = 20, .stop_tokens = {15}},
                                             [&](std::span<const std::int32_t> tokens, const DraftCycle*) {
                                               seen.insert(seen.end(), tokens.begin(), tokens.end());
                                             });
  EXPECT_EQ(seen, result.tokens);
}

TEST(SpeculateTest, PlainDecodingEndsAtTheSameTokens) {
  const Script script;
  ScriptedDecoder decoder(script.text, script.drafts, kBlock);
  const PromptState prompt = run_prompt(decoder, std::span(script.text).first(4));
  EXPECT_EQ(decode_plainly(decoder, prompt, {.max_new_tokens = 7}).tokens, sequence(4, 10));
  EXPECT_EQ(decode_plainly(decoder, prompt, {.max_new_tokens = 30, .stop_tokens = {9}}).tokens,
            sequence(4, 9));
}

}  // namespace
}  // namespace draftsmith
