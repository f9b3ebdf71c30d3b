#include "data/conversations.h"

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
                               .chat = chat_,
                               .max_tokens = max_tokens});
  }

  // `bad` stands on line 3, after a good line and an empty one.
  void expect_refused(const std::string& bad, const char* says) const {
    expect_error([&] { read(std::string(kGood) + "\n\n" + bad + "\n"); }, {"data.jsonl:3: ", says});
  }

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
    const Corpus corpus =
        read_conversations({.file = file, .tokenizer = tokenizer_, .chat = chat_, .max_tokens = 512});
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
  expect_refused("{", "is not JSON");
  expect_refused("[1]", "expected an object, found array");
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

TEST_F(Conversations, RefusesADataSetWithNothingUsable) {
  expect_error([&] { read(""); }, {"data.jsonl", "no usable conversation: of 0 read"});
  expect_error([&] { read(kGood, 5); },
               {"data.jsonl", "of 1 read, 1 have fewer than two adjacent supervised", "1 were truncated"});
  expect_error(
      [&] {
        read_conversations(
            {.file = folder_.path() / "none.jsonl", .tokenizer = tokenizer_, .chat = chat_, .max_tokens = 9});
      },
      {"none.jsonl", "cannot be opened"});
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
