#include "data/mask_token.h"

#include "text_fixtures.h"

namespace draftsmith {
namespace {

class MaskToken : public testing::Test {
 protected:
  // Tokens 0 to 256; pad "p", eos "<|end|>", bos "b"; no mask token.
  MaskToken() {
    folder_.write("tokenizer.json", bytes_only_tokenizer().dump());
    folder_.write("tokenizer_config.json", R"({"pad_token": "p", "eos_token": "<|end|>", "bos_token": "b"})");
  }
  std::int32_t choose(std::optional<std::int64_t> configured, std::int64_t table_rows,
                      std::vector<std::int32_t> stop_tokens = {}) const {
    const Tokenizer tokenizer = Tokenizer::load(folder_.path());
    return choose_mask_token({.configured = configured,
                              .tokenizer = tokenizer,
                              .table_rows = table_rows,
                              .stop_tokens = stop_tokens});
  }

  const TemporaryFolder folder_;
};

TEST_F(MaskToken, IsTheConfiguredOneOrElseTheTokenizers) {
  EXPECT_EQ(choose(258, 260), 258);
  EXPECT_EQ(choose('x', 257), 'x');
  const Tokenizer demo = Tokenizer::load(kDemoTarget);
  EXPECT_EQ(choose_mask_token({.configured = {}, .tokenizer = demo, .table_rows = 4096}), 4095);
}

TEST_F(MaskToken, MissingNamesUpToThreeUnusedRows) {
  expect_error([&] { choose({}, 264); },
               {"no mask token", "drafter.mask_token_id", "unused row of the table: 257, 258, 259"});
  expect_error([&] { choose({}, 258); }, {"unused row of the table: 257"});
  expect_error([&] { choose({}, 257); }, {"257 rows are all tokens", "drafter.mask_token_id"});
}

TEST_F(MaskToken, IsARowOfTheTableThatTextDoesNotNeed) {
  expect_error([&] { choose(260, 260); },
               {"drafter.mask_token_id 260 is outside", "table of 260 rows", "257, 258, 259"});
  expect_error([&] { choose(-1, 260); }, {"drafter.mask_token_id -1 is outside"});
  expect_error([&] { choose('p', 260); }, {"drafter.mask_token_id 112 is the pad token", "257, 258, 259"});
  expect_error([&] { choose(256, 260); }, {"drafter.mask_token_id 256 is the eos token"});
  expect_error([&] { choose('b', 260); }, {"drafter.mask_token_id 98 is the bos token"});
  expect_error([&] { choose('x', 260, {'x'}); }, {"drafter.mask_token_id 120 is the stop token"});
  const Tokenizer demo = Tokenizer::load(kDemoTarget);
  expect_error([&] { choose_mask_token({.configured = {}, .tokenizer = demo, .table_rows = 4095}); },
               {"the tokenizer's mask token 4095 is outside"});
}

TEST_F(MaskToken, InTheDataIsWarnedOfOnceWithTheFirstLineAndTheirNumber) {
  Corpus corpus;
  const auto add = [&](std::vector<std::int32_t> ids, std::int64_t line) {
    const std::vector<std::uint8_t> mask(ids.size(), 1);
    corpus.append({.ids = std::move(ids), .loss_mask = mask, .id = "named", .line = line}, 4);
  };
  add({1, 2}, 1);
  add({1, 2, 3, 4, 258}, 2);  // the mask token is cut off
  EXPECT_EQ(mask_token_warning(corpus, "data.jsonl", 258), "");
  add({258, 2, 258}, 7);
  EXPECT_THAT(mask_token_warning(corpus, "data.jsonl", 258),
              testing::AllOf(testing::StartsWith("data.jsonl:7: "), testing::HasSubstr("mask token, 258"),
                             testing::HasSubstr("2 times in all, in 1 document:")));
  add({2, 258}, 9);
  EXPECT_THAT(mask_token_warning(corpus, "data.jsonl", 258),
              testing::AllOf(testing::StartsWith("data.jsonl:7: "),
                             testing::HasSubstr("3 times in all, in 2 documents:"),
                             testing::HasSubstr("drafter.mask_token_id")));
}

}  // namespace
}  // namespace draftsmith
