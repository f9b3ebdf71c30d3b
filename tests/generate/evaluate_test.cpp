#include "generate/evaluate.h"

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/file.h"
#include "data/json.h"
#include "support/scripted_decoder.h"
#include "support/spec_tiny.h"
#include "support/temporary_folder.h"

namespace draftsmith {
namespace {

// Conversations whose prompts are those of spec_tiny, in two domains by turns.
Corpus tiny_corpus(const SpecTiny& tiny) {
  Corpus corpus;
  for (std::int64_t i = 0; i < SpecTiny::kPrompts; ++i) {
    Corpus::Document document{.ids = tiny.rows("greedy_output", i)[0], .domain = i % 2 == 0 ? "even" : "odd"};
    document.loss_mask.assign(document.ids.size(), 1);
    std::fill_n(document.loss_mask.begin(), tiny.prompt(i).size(), 0);
    corpus.append(std::move(document), SpecTiny::kLength);
  }
  return corpus;
}

// Cycles are known from the reference: its rows of proposals, less the useless ones of prompts 3 and 4. All
// tokens but the first of 48 come from cycles.
TEST(EvaluateTest, AcceptanceIsPooledOverConversationsAndByDomain) {
  const SpecTiny tiny;
  const Corpus corpus = tiny_corpus(tiny);
  std::vector<std::int64_t> seen;
  const EvaluationRun run{.corpus = corpus,
                          .conversations = SpecTiny::kPrompts,
                          .generation = {.max_new_tokens = 48},
                          .progress = [&](std::int64_t done) { seen.push_back(done); }};
  EXPECT_EQ(longest_sequence(run), SpecTiny::kLength);
  const auto decoder = tiny.decoder(DType::float32, {.longest = longest_sequence(run)});
  const EvaluationReport report = evaluate_drafter(*decoder, run);

  EXPECT_EQ(report.pooled.conversations, 6);
  EXPECT_EQ(report.pooled.cycles, 7 + 6 + 7 + 6 + 6 + 6);
  EXPECT_EQ(report.pooled.committed, 6 * 47);
  ASSERT_EQ(report.domains.size(), 2u);
  EXPECT_EQ(report.domains[0].name, "even");
  EXPECT_EQ(report.domains[0].sums.cycles, 7 + 7 + 6);
  EXPECT_EQ(report.domains[1].sums.cycles, 6 + 6 + 6);
  EXPECT_EQ(report.domains[1].sums.committed, 3 * 47);
  EXPECT_EQ(report.greedy_equal, 6);
  EXPECT_EQ(report.plain.tokens, report.speculative.tokens);
  EXPECT_EQ(seen, (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6}));
}

// The prompt is 1 2 3 and its choice 4. The first cycle drafts 5 0 7 and commits 5 6; the second drafts 7 8 9
// and is cut after 8.
struct ShortConversation {
  std::vector<std::int32_t> text{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  std::vector<std::int32_t> drafts{1, 2, 3, 4, 5, 0, 7, 8, 9, 10, 11, 12};
  Corpus corpus;

  ShortConversation() { corpus.append({.ids = text, .loss_mask = {0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1}}, 12); }
  EvaluationReport evaluate(ScriptedDecoder& decoder) const {
    return evaluate_drafter(
        decoder,
        {.corpus = corpus, .conversations = 1, .generation = {.max_new_tokens = 9, .stop_tokens = {8}}});
  }
};

TEST(EvaluateTest, OffsetsCountCommittedProposals) {
  const ShortConversation conversation;
  ScriptedDecoder decoder(conversation.text, conversation.drafts, 4);
  const EvaluationReport report = conversation.evaluate(decoder);
  EXPECT_EQ(report.pooled.cycles, 2);
  EXPECT_EQ(report.pooled.committed, 4);
  EXPECT_EQ(report.accepted, (std::vector<std::int64_t>{2, 1, 0}));
  EXPECT_EQ(report.domains.front().name, "other");
  EXPECT_EQ(report.greedy_equal, 1);
}

TEST(EvaluateTest, AnOutputThatDiffersFromPlainDecodingIsNotCountedAsEqual) {
  const ShortConversation conversation;
  ScriptedDecoder decoder(conversation.text, conversation.drafts, 4);
  std::vector<std::int32_t> other = conversation.text;
  other[6] = 99;
  decoder.step_by(other);
  EXPECT_EQ(conversation.evaluate(decoder).greedy_equal, 0);
}

// Every conversation draws numbers of its own, so the same prompt twice is not the same output.
TEST(EvaluateTest, DrawnOutputsAreNotComparedAndDifferByConversation) {
  const SpecTiny tiny;
  Corpus corpus;
  for (int i = 0; i < 2; ++i) {
    Corpus::Document document{.ids = tiny.rows("greedy_output", 0)[0]};
    document.loss_mask.assign(document.ids.size(), 1);
    std::fill_n(document.loss_mask.begin(), tiny.prompt(0).size(), 0);
    corpus.append(std::move(document), SpecTiny::kLength);
  }
  EvaluationRun run{
      .corpus = corpus,
      .conversations = 1,
      .generation = {.max_new_tokens = 48, .sampling = {.temperature = 1.5, .greedy_drafts = true}}};
  const auto decoder = tiny.decoder(DType::float32, {.longest = longest_sequence(run)});
  const EvaluationReport one = evaluate_drafter(*decoder, run);
  run.conversations = 2;
  const EvaluationReport two = evaluate_drafter(*decoder, run);
  EXPECT_FALSE(two.greedy_equal.has_value());
  EXPECT_EQ(one.pooled.committed, 47);
  EXPECT_EQ(two.pooled.committed, 2 * 47);
  std::vector<std::int64_t> twice = one.accepted;
  for (std::int64_t& count : twice) count *= 2;
  EXPECT_NE(two.accepted, twice);
}

TEST(EvaluateTest, DomainsNamedAsTheTablesOwnRowsStayApart) {
  const ShortConversation conversation;
  Corpus corpus;
  for (const char* domain : {"", "other", "all", "\"all\""}) {
    corpus.append(
        {.ids = conversation.text, .loss_mask = {0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1}, .domain = domain}, 12);
  }
  ScriptedDecoder decoder(conversation.text, conversation.drafts, 4);
  const EvaluationReport report = evaluate_drafter(
      decoder,
      {.corpus = corpus, .conversations = 4, .generation = {.max_new_tokens = 9, .stop_tokens = {8}}});
  std::vector<std::string> names;
  for (const DomainAcceptance& domain : report.domains) names.push_back(domain.name);
  EXPECT_THAT(names, testing::ElementsAre("other", "\"other\"", "\"all\"", "\"\"all\"\""));
}

TEST(EvaluateTest, ADomainIsPrintedOnOneLineWithoutControlCharacters) {
  EvaluationReport report;
  report.domains = {{"a\n\x1b[31mb", {.conversations = 1, .cycles = 2, .committed = 3}}};
  std::ostringstream out;
  print_evaluation(out, report);
  EXPECT_THAT(out.str(), testing::HasSubstr("\na\\n\\u001b[31mb  "));
}

TEST(EvaluateTest, TheFileHoldsWhatTheTableShows) {
  EvaluationReport report;
  report.pooled = {.conversations = 4, .cycles = 10, .committed = 25};
  report.domains = {{"count", {.conversations = 3, .cycles = 8, .committed = 22}},
                    {"prose", {.conversations = 1, .cycles = 2, .committed = 3}}};
  report.accepted = {9, 5, 1};
  report.greedy_equal = 4;
  report.speculative = {.tokens = 25, .seconds = 0.5};
  report.plain = {.tokens = 25, .seconds = 1.0};
  report.seconds = 2;
  const TemporaryFolder folder;
  write_evaluation(folder.path() / "eval.json", report);
  const JsonValue json = parse_json(read_text_file(folder.path() / "eval.json"), "eval.json");
  const JsonObject& members = *json.get<JsonObject>();
  const auto number = [](const JsonValue* value) {
    const double* real = value->get<double>();
    return real != nullptr ? *real : static_cast<double>(*value->get<std::int64_t>());
  };
  EXPECT_EQ(number(find_member(members, "pooled")), 2.5);
  EXPECT_EQ(number(find_member(*find_member(members, "domains")->get<JsonObject>(), "count")), 2.75);
  EXPECT_EQ(number(&find_member(members, "by_offset")->get<JsonArray>()->at(1)), 0.5);
  EXPECT_EQ(number(find_member(members, "greedy_equal")), 4);
  EXPECT_EQ(number(find_member(members, "conversations")), 4);
  EXPECT_EQ(number(find_member(members, "seconds")), 2);
  EXPECT_EQ(number(find_member(members, "speed_up")), 2);

  std::ostringstream table;
  print_evaluation(table, report);
  for (const char* part : {"count", "2.75", "2.50", "50.0 %", "4 of 4", "speed-up 2.00"}) {
    EXPECT_NE(table.str().find(part), std::string::npos) << part << "\n" << table.str();
  }
}

// The first token is the prompt's own choice, made before anything is drafted or timed.
TEST(EvaluateTest, WhatWasNotMeasuredIsNullAndNotZero) {
  const ShortConversation conversation;
  ScriptedDecoder decoder(conversation.text, conversation.drafts, 4);
  const EvaluationReport report = evaluate_drafter(decoder, {.corpus = conversation.corpus,
                                                             .conversations = 1,
                                                             .generation = {.max_new_tokens = 1},
                                                             .progress = {}});
  const TemporaryFolder folder;
  write_evaluation(folder.path() / "eval.json", report);
  const JsonValue json = parse_json(read_text_file(folder.path() / "eval.json"), "eval.json");
  const JsonObject& members = *json.get<JsonObject>();
  std::vector<const JsonValue*> values{
      find_member(*find_member(members, "domains")->get<JsonObject>(), "other"),
      &find_member(members, "by_offset")->get<JsonArray>()->at(0)};
  for (const char* key : {"pooled", "plain_tokens_per_second", "speculative_tokens_per_second", "speed_up"})
    values.push_back(find_member(members, key));
  for (const JsonValue* value : values) EXPECT_NE(value->get<JsonNull>(), nullptr) << describe_json(*value);

  std::ostringstream table;
  print_evaluation(table, report);
  EXPECT_EQ(table.str().find("0.0"), std::string::npos) << table.str();
  EXPECT_NE(table.str().find("no speed was measured"), std::string::npos) << table.str();
}

}  // namespace
}  // namespace draftsmith
