#include "data/conversations.h"

#include "data/chat.h"
#include "data/utf8.h"
#include "text_fixtures.h"

namespace draftsmith {
namespace {

using nlohmann::json;
using testing::ElementsAre;

class Conversations : public testing::Test {
 protected:
  Corpus read(const std::string& lines, std::int64_t max_tokens = 512) const {
    return read_conversations({.file = folder_.write("data.jsonl", lines),
                               .tokenizer = tokenizer_,
                               .target = kDemoTarget,
                               .table_rows = kTableRows,
                               .max_tokens = max_tokens});
  }

  // `bad` stands on line 3, after a good line and an empty one.
  void expect_refused(const std::string& bad, const char* says) const {
    expect_error([&] { read(std::string(kGood) + "\n\n" + bad + "\n"); }, {"data.jsonl:3: ", says});
  }

  static constexpr std::int64_t kTableRows = 4096;
  static constexpr const char* kGood =
      R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Good day."}]})";
  const Tokenizer tokenizer_ = Tokenizer::load(kDemoTarget);
  const ChatTemplate chat_ = ChatTemplate::load(kDemoTarget);
  const TemporaryFolder folder_;
};

// Every conversation of the demo: the text, where supervision starts and ends, and the prompt used in
// evaluation.
TEST_F(Conversations, ReadsTheDemoAndKeepsEveryByte) {
  for (const auto& [name, lines] : {std::pair("train.jsonl", 5407), {"eval.jsonl", 285}}) {
    const auto file = kSourceFolder / "examples/demo" / name;
    const Corpus corpus = read_conversations({.file = file,
                                              .tokenizer = tokenizer_,
                                              .target = kDemoTarget,
                                              .table_rows = kTableRows,
                                              .max_tokens = 512});
    ASSERT_EQ(corpus.size(), lines);
    EXPECT_EQ(corpus.counts().read, lines);
    EXPECT_EQ(corpus.counts().skipped, 0);
    EXPECT_EQ(corpus.counts().truncated, 0);
    EXPECT_EQ(corpus.domains().size(), 6u);
    std::ifstream stream(file);
    std::string line;
    for (std::int64_t i = 0; std::getline(stream, line); ++i) {
      const json conversation = json::parse(line);
      const DocumentView document = corpus[i];
      const std::string prompt = "<|im_start|>user\n" +
                                 conversation["messages"][0]["content"].get<std::string>() +
                                 "<|im_end|>\n<|im_start|>assistant\n";
      const std::string answer = conversation["messages"][1]["content"].get<std::string>() + "<|im_end|>";
      ASSERT_EQ(tokenizer_.decode(document.prompt()), prompt);
      ASSERT_EQ(tokenizer_.decode(document.answer()), answer);
      ASSERT_EQ(tokenizer_.decode(document.ids), prompt + answer + "\n");
      ASSERT_EQ(document.id, conversation["id"].get<std::string>());
      ASSERT_EQ(document.domain, conversation["domain"].get<std::string>());
    }
  }
}

TEST_F(Conversations, CountsWhatItReadsCutsAndSkips) {
  const std::string no_answer_left =
      R"({"messages": [{"role": "user", "content": "1 2 3 4 5 6 7 8 9 10 11 12"}, {"role": "assistant", "content": "A"}]})";
  const std::string only_end =
      R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": ""}]})";
  const std::string cut =
      R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "1 2 3 4 5 6 7 8 9 10 11 12"}]})";
  const std::int64_t max_tokens = 20;
  const Corpus corpus =
      read(kGood + ("\n" + no_answer_left) + "\n  \n" + only_end + "\r\n" + cut, max_tokens);
  EXPECT_EQ(corpus.counts().read, 4);
  EXPECT_EQ(corpus.counts().skipped, 2);
  EXPECT_EQ(corpus.counts().truncated, 2);
  ASSERT_EQ(corpus.size(), 2);
  EXPECT_EQ(corpus[1].ids.size(), 20u);
  EXPECT_EQ(corpus[1].prompt().size() + corpus[1].answer().size(), 20u);
  EXPECT_EQ(corpus.counts().tokens, std::ssize(corpus[0].ids) + 20);
  EXPECT_EQ(corpus.counts().supervised_tokens,
            std::ssize(corpus[0].answer()) + std::ssize(corpus[1].answer()));
}

TEST_F(Conversations, TheLastAnswerIsTheReferenceOfItsPrompt) {
  const Corpus corpus = read(
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "first"}, )"
      R"({"role": "user", "content": "b"}, {"role": "assistant", "content": "second"}, {"role": "user", "content": "c"}]})");
  EXPECT_EQ(tokenizer_.decode(corpus[0].prompt()),
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nfirst<|im_end|>\n"
            "<|im_start|>user\nb<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(tokenizer_.decode(corpus[0].answer()), "second<|im_end|>");
  const std::vector<Message> asked = {{"user", "a"}, {"assistant", "first"}, {"user", "b"}};
  EXPECT_THAT(corpus[0].prompt(), testing::ElementsAreArray(chat_.encode_prompt(tokenizer_, asked)));
}

TEST_F(Conversations, NamesAndDomainsAreOptional) {
  const std::string named =
      R"({"id": 7, "domain": "code", "other": {"x": [1]}, "messages": [)"
      R"({"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Good day."}]})";
  const Corpus corpus = read(named + "\n" + kGood + "\n" + named);
  EXPECT_EQ(corpus[0].id, "7");
  EXPECT_EQ(corpus[0].domain, "code");
  EXPECT_EQ(corpus[1].id, (folder_.path() / "data.jsonl").string() + ":2");
  EXPECT_EQ(corpus[1].domain, "");
  EXPECT_THAT(corpus.domains(), ElementsAre("code", ""));
}

TEST_F(Conversations, ReadsLinesOfManyMegabytes) {
  std::string answer;
  while (answer.size() < (4 << 20)) answer += "word ";
  const json line = {
      {"messages", {{{"role", "user"}, {"content", "Hi"}}, {{"role", "assistant"}, {"content", answer}}}}};
  const Corpus corpus = read(line.dump(), std::int64_t{1} << 40);
  EXPECT_EQ(tokenizer_.decode(corpus[0].answer()), answer + "<|im_end|>");
}

TEST_F(Conversations, RefusesBrokenLinesByFileAndLine) {
  expect_refused("{",
                 "is not JSON at byte 2: syntax error while parsing object key - unexpected end of input; "
                 "expected string literal; either it is cut there, or the object goes on in the next line");
  expect_refused("[1]", "expected an object, found array");
  expect_refused(std::string(1000, '{') + std::string(1 << 22, 'a'), "is not JSON at byte 2: syntax error");
  expect_refused("{}", "has no \"messages\"");
  expect_refused(R"({"messages": "Hi"})", "at least one message, and is of type string");
  expect_refused(R"({"messages": []})", "and is empty");
  expect_refused(R"({"messages": ["Hi"]})", "messages[0] has no \"role\"");
  expect_refused(R"({"messages": [{"role": "user"}]})", "messages[0] has no \"content\"");
  expect_refused(R"({"messages": [{"role": "user", "content": ["Hi"]}]})",
                 "messages[0]: \"content\" must be a text, and is of type array");
  expect_refused(R"({"messages": [{"role": 1, "content": "Hi"}]})", "messages[0]: \"role\" must be a text");
  expect_refused(R"({"messages": [{"role": "user", "content": "Hi"}]})", "no assistant message");
  expect_refused(
      R"({"messages": [{"role": "bot", "content": "Hi"}, {"role": "assistant", "content": "Hi"}]})",
      "unknown role \"bot\"");
  expect_refused("{\"messages\": [{\"role\": \"assistant\", \"content\": \"\xff\"}]}", "is not JSON");
  expect_refused(R"({"messages": [{"role": "assistant", "content": "\ud800"}]})", "is not JSON");
  expect_refused(R"({"id": [1], "messages": [{"role": "assistant", "content": "Hi"}]})",
                 "\"id\" must be a text or an integer");
}

// What a data set quotes is not quoted back whole: a message stays readable.
TEST_F(Conversations, AMessageAboutAHugeBrokenLineIsShort) {
  try {
    read("{\"messages\": \"" + std::string(1 << 22, '\xe9'));
    ADD_FAILURE() << "a line without an end was read";
  } catch (const Error& error) {
    EXPECT_LT(std::string_view(error.what()).size(), 1000u);
    EXPECT_EQ(valid_utf8_bytes(error.what()), std::string_view(error.what()).size());
  }
}

TEST_F(Conversations, SystemMessagesAreContextAndEveryAnswerIsSupervised) {
  const Corpus corpus =
      read(R"({"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "a"}, )"
           R"({"role": "assistant", "content": "first"}, {"role": "user", "content": ""}, )"
           R"({"role": "assistant", "content": "second"}]})");
  std::vector<std::int32_t> supervised;
  for (std::size_t i = 0; i < corpus[0].ids.size(); ++i) {
    if (corpus[0].loss_mask[i] == 1) supervised.push_back(corpus[0].ids[i]);
  }
  EXPECT_EQ(tokenizer_.decode(supervised), "first<|im_end|>second<|im_end|>");
  EXPECT_EQ(tokenizer_.decode(corpus[0].ids),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\na<|im_end|>\n"
            "<|im_start|>assistant\nfirst<|im_end|>\n<|im_start|>user\n<|im_end|>\n"
            "<|im_start|>assistant\nsecond<|im_end|>\n");
}

TEST_F(Conversations, ATextIsSupervisedButForItsFirstToken) {
  const std::string text = "Zürich lies on a lake, and <|im_end|> is one token.";
  const Corpus corpus = read(json{{"text", text}, {"id", "z"}, {"domain", "prose"}}.dump() + "\n" +
                             R"({"text": ""})" + "\n" + R"({"text": "12", "messages": null})");
  ASSERT_EQ(corpus.size(), 1);
  EXPECT_EQ(corpus.counts().read, 3);
  EXPECT_EQ(corpus.counts().skipped, 2);  // none and one token to learn
  EXPECT_THAT(corpus[0].ids, testing::ElementsAreArray(tokenizer_.encode(text)));
  EXPECT_EQ(corpus[0].prompt().size(), 1u);
  EXPECT_EQ(corpus[0].answer().size(), corpus[0].ids.size() - 1);
  EXPECT_EQ(corpus[0].id, "z");
  EXPECT_EQ(corpus[0].domain, "prose");
}

TEST_F(Conversations, TokensAreTakenAsTheyAre) {
  const Corpus corpus = read(R"({"input_ids": [5, 4095, 0, 7], "loss_mask": [0, 1, 1, 0], "id": 3})"
                             "\n"
                             R"({"input_ids": [], "loss_mask": []})"
                             "\n"
                             R"({"input_ids": [1, 2, 3, 4, 5], "loss_mask": [0, 0, 1, 1, 1]})",
                             4);
  ASSERT_EQ(corpus.size(), 2);
  EXPECT_THAT(corpus[0].ids, ElementsAre(5, 4095, 0, 7));
  EXPECT_THAT(corpus[0].loss_mask, ElementsAre(0, 1, 1, 0));
  EXPECT_EQ(corpus[0].id, "3");
  EXPECT_THAT(corpus[1].ids, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(corpus.counts().truncated, 1);
  EXPECT_EQ(corpus.counts().skipped, 1);
}

TEST_F(Conversations, TextsAndTokensNeedNoChatTemplate) {
  const std::filesystem::path nowhere = folder_.path();
  const auto read_without = [&](const char* lines) {
    return read_conversations({.file = folder_.write("data.jsonl", lines),
                               .tokenizer = tokenizer_,
                               .target = nowhere,
                               .table_rows = kTableRows,
                               .max_tokens = 512});
  };
  EXPECT_EQ(read_without(R"({"text": "A lake and a hill."})").size(), 1);
  EXPECT_EQ(read_without(R"({"input_ids": [1, 2, 3], "loss_mask": [0, 1, 1]})").size(), 1);
  expect_error([&] { read_without(kGood); }, {"data.jsonl:1: ", "template"});
}

TEST_F(Conversations, RefusesTokensThatCannotBe) {
  const auto refused = [&](const char* line, const char* says) {
    expect_error([&] { read(std::string(R"({"input_ids": [1, 2], "loss_mask": [0, 1]})") + "\n" + line); },
                 {"data.jsonl:2: ", says});
  };
  refused(R"({"input_ids": [1, 2, 3], "loss_mask": [0, 1]})", "has 3 input_ids and 2 entries of loss_mask");
  refused(R"({"input_ids": [1, 2]})", "has \"input_ids\" but no \"loss_mask\"");
  refused(R"({"input_ids": [1, 4096], "loss_mask": [0, 1]})", "has id 4096, and the target's table has 4096");
  refused(R"({"input_ids": [1, -1], "loss_mask": [0, 1]})", "input_ids[1] is -1");
  refused(R"({"input_ids": [1, 4294967297], "loss_mask": [0, 1]})", "input_ids[1] is 4294967297");
  refused(R"({"input_ids": [1, 18446744073709551615], "loss_mask": [0, 1]})",
          "input_ids[1] must be an integer, and is 18446744073709551615");
  refused(R"({"input_ids": [1, 2.0], "loss_mask": [0, 1]})", "input_ids[1] must be an integer, and is 2.0");
  refused(R"({"input_ids": ["a"], "loss_mask": [0]})",
          "input_ids[0] must be an integer, and is of type string");
  refused(R"({"input_ids": "a", "loss_mask": [0]})", "\"input_ids\" must be a list of integers");
  refused(R"({"input_ids": [1, 2], "loss_mask": [0, 2]})", "loss_mask[1] must be 0 or 1, and is 2");
  refused(R"({"input_ids": [1, 2], "loss_mask": [0, true]})", "loss_mask[1] must be an integer");
  refused(R"({"input_ids": [1, 2], "loss_mask": [1, 1]})", "nothing comes before the first token");
}

TEST_F(Conversations, AFileHoldsLinesOfOneKind) {
  expect_refused(R"({"text": "A lake."})", "has \"text\", and line 1 has \"messages\"");
  expect_refused(R"({"text": "A lake.", "messages": []})", "has both \"messages\" and \"text\"");
  expect_error(
      [&] {
        read(
            "\n"
            R"({"text": "A lake and a hill."})"
            "\n"
            R"({"input_ids": [1], "loss_mask": [0]})");
      },
      {"data.jsonl:3: ", "has \"input_ids\", and line 2 has \"text\""});
  expect_refused(R"({"text": 1})", "and line 1 has \"messages\"");
  expect_error([&] { read(R"({"text": 1})"); },
               {"data.jsonl:1: ", "\"text\" must be a text, and is of type number"});
}

TEST_F(Conversations, TokensOutsideTheTableAreNamed) {
  expect_error(
      [&] {
        read_conversations({.file = folder_.write("data.jsonl", kGood),
                            .tokenizer = tokenizer_,
                            .target = kDemoTarget,
                            .table_rows = 10,
                            .max_tokens = 512});
      },
      {"data.jsonl:1: token ", "the target's table has 10 rows"});
}

// A list would be one damaged line after the other.
TEST_F(Conversations, AJsonDocumentIsNoFileOfJsonLines) {
  const std::string list = "[\n  " + std::string(kGood) + "\n]\n", object = "\n{\n  \"messages\": []\n}\n";
  expect_error([&] { read(list); },
               {"data.jsonl:1: expected JSON lines", "the beginning of a list; jq -c '.[]'"});
  expect_error([&] { read("[" + std::string(kGood) + "]"); }, {"the beginning of a list"});
  expect_error([&] { read(object); },
               {"data.jsonl:2: expected JSON lines", "an object of several lines; jq -c . "});
  expect_error([&] { read("{\"messages\": [\n]}\n"); },
               {"data.jsonl:1: ", "the object goes on in the next line"});
}

TEST_F(Conversations, AnAnswerThatCallsIsNotLearnedFromItsContentAlone) {
  const auto with = [](const std::string& members) {
    return R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello", )" +
           members + "}]}";
  };
  for (const char* call : {R"("tool_calls": [{"id": "1"}])", R"("function_call": {"name": "f"})"})
    expect_refused(with(call), "messages[1] has a \"");
  expect_refused(R"({"messages": [{"role": "assistant", "content": null, "tool_calls": [{}]}]})",
                 "\"input_ids\" with \"loss_mask\"");
  const Corpus plain = read(with(R"("name": "a", "weight": 1)"));
  const Corpus without = read(with(R"("tool_calls": [], "function_call": null)"));
  EXPECT_THAT(without[0].ids, testing::ElementsAreArray(plain[0].ids));
}

TEST_F(Conversations, RefusesADataSetWithNothingUsable) {
  expect_error([&] { read(""); }, {"data.jsonl:1: expected lines of JSON", "found an empty file"});
  expect_error([&] { read(kGood, 5); },
               {"data.jsonl", "of 1 read, 1 have fewer than two adjacent supervised", "1 were truncated"});
  expect_error(
      [&] {
        read_conversations({.file = folder_.path() / "none.jsonl",
                            .tokenizer = tokenizer_,
                            .target = kDemoTarget,
                            .table_rows = kTableRows,
                            .max_tokens = 9});
      },
      {"none.jsonl", "cannot open this file of JSON lines", "No such file or directory"});
}

TEST(Corpus, RefusesAMaskThatIsAllOnes) {
  Corpus corpus;
  corpus.append({.ids = {1, 2, 3}, .loss_mask = {1, 1, 1}}, 10);
  expect_error([&] { corpus.require_usable("data.jsonl"); },
               {"data.jsonl", "every one of its 3 tokens is supervised"});
  corpus.append({.ids = {1, 2, 3}, .loss_mask = {0, 1, 1}}, 10);
  corpus.require_usable("data.jsonl");
}

TEST(Corpus, KeepsADocumentOnlyWithTwoAdjacentSupervisedTokensAfterTheCut) {
  Corpus corpus;
  corpus.append({.ids = {1, 2, 3, 4}, .loss_mask = {0, 1, 0, 1}}, 10);
  corpus.append({.ids = {1, 2, 3, 4}, .loss_mask = {0, 0, 1, 1}}, 3);
  EXPECT_EQ(corpus.size(), 0);
  corpus.append({.ids = {5, 6, 7, 8}, .loss_mask = {0, 0, 1, 1}}, 4);
  corpus.append({.ids = {9, 9, 9, 9, 9}, .loss_mask = {1, 1, 0, 1, 1}}, 4);
  ASSERT_EQ(corpus.size(), 2);
  EXPECT_THAT(corpus[0].prompt(), ElementsAre(5, 6));
  EXPECT_THAT(corpus[0].answer(), ElementsAre(7, 8));
  EXPECT_THAT(corpus[1].ids, ElementsAre(9, 9, 9, 9));
  EXPECT_EQ(corpus[1].prompt().size(), 3u);
  EXPECT_EQ(corpus.counts().skipped, 2);
  EXPECT_EQ(corpus.counts().truncated, 2);
}

}  // namespace
}  // namespace draftsmith
