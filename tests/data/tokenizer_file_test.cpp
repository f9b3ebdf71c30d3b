#include "data/tokenizer_file.h"

#include <random>

#include "data/tokenizer.h"
#include "text_fixtures.h"

namespace draftsmith {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// A value put at a place of a good file, and what the message must say.
struct Refusal {
  const char* place;  // JSON pointer
  json value;
  std::vector<std::string> says;
};

void expect_refused(const Refusal& refusal) {
  SCOPED_TRACE(refusal.place + std::string(" = ") + refusal.value.dump());
  const TemporaryFolder folder;
  auto document = bytes_only_tokenizer();
  document["model"]["vocab"]["ab"] = 300;
  document["model"]["merges"] = json::array({json::array({"a", "b"})});
  document[json::json_pointer(refusal.place)] = refusal.value;
  const auto file = folder.write("tokenizer.json", document.dump());
  for (const std::string& part : refusal.says) {
    expect_error([&] { Tokenizer::load(file); }, {file.string(), part});
  }
}

json split(const char* pattern) {
  return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
}

json sequence(const json& first) {
  const json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  return {{"type", "Sequence"}, {"pretokenizers", {first, byte_level}}};
}

TEST(TokenizerFile, RefusesModelsThatItDoesNotRead) {
  for (const Refusal& refusal : std::vector<Refusal>{
           {"/model", nullptr, {"\"model\" is null", "an object"}},
           {"/model/type", "Unigram", {"\"model.type\" is \"Unigram\"", "supported: \"BPE\""}},
           {"/model/type", "WordPiece", {"\"model.type\" is \"WordPiece\""}},
           {"/model/byte_fallback", true, {"\"model.byte_fallback\" is true", "supported: false"}},
           {"/model/ignore_merges", 1, {"\"model.ignore_merges\" is 1", "true or false"}},
           {"/model/dropout", 0.1, {"\"model.dropout\" is 0.1", "null"}},
           {"/model/end_of_word_suffix", "</w>", {"\"model.end_of_word_suffix\" is \"</w>\""}},
           {"/model/continuing_subword_prefix", "##", {"\"model.continuing_subword_prefix\" is \"##\""}},
           {"/normalizer", {{"type", "Lowercase"}}, {"\"normalizer.type\" is \"Lowercase\"", "\"NFC\""}},
           {"/decoder", nullptr, {"\"decoder\" is null", "\"ByteLevel\""}},
           {"/decoder/type", "WordPiece", {"\"decoder.type\" is \"WordPiece\""}},
           {"/post_processor",
            {{"type", "BertProcessing"}},
            {"\"post_processor.type\" is \"BertProcessing\"", "\"TemplateProcessing\""}},
           {"/post_processor",
            {{"type", "Sequence"},
             {"processors", {{{"type", "ByteLevel"}}, {{"type", "RobertaProcessing"}}}}},
            {"\"post_processor.processors[1].type\" is \"RobertaProcessing\""}},
       }) {
    expect_refused(refusal);
  }
}

TEST(TokenizerFile, RefusesPretokenizersThatItDoesNotRead) {
  json removed = split(" "), inverted = split(" "), plain = split(" ");
  removed["behavior"] = "Removed";
  inverted["invert"] = true;
  plain["pattern"] = {{"String", " "}};
  for (const Refusal& refusal : std::vector<Refusal>{
           {"/pre_tokenizer", nullptr, {"\"pre_tokenizer\" is null", "\"ByteLevel\""}},
           {"/pre_tokenizer/type", "Metaspace", {"\"pre_tokenizer.type\" is \"Metaspace\""}},
           {"/pre_tokenizer/add_prefix_space", true, {"\"pre_tokenizer.add_prefix_space\" is true"}},
           {"/pre_tokenizer",
            sequence({{"type", "Punctuation"}}),
            {"\"pre_tokenizer.pretokenizers[0].type\" is \"Punctuation\"", "\"Digits\""}},
           {"/pre_tokenizer",
            sequence({{"type", "Digits"}, {"individual_digits", "yes"}}),
            {"\"pre_tokenizer.pretokenizers[0].individual_digits\" is \"yes\""}},
           {"/pre_tokenizer",
            sequence(removed),
            {"pretokenizers[0].behavior\" is \"Removed\"", "\"Isolated\""}},
           {"/pre_tokenizer", sequence(inverted), {"pretokenizers[0].invert\" is true"}},
           {"/pre_tokenizer",
            sequence(plain),
            {"pretokenizers[0].pattern.Regex\" is null", "a regular expression"}},
           {"/pre_tokenizer",
            {{"type", "Sequence"}, {"pretokenizers", json::array()}},
            {"pretokenizers\" is []"}},
           {"/pre_tokenizer", sequence(split("(")), {"'('", "PCRE2", "at byte 1"}},
           {"/pre_tokenizer", sequence(split("a*")), {"'a*'", "empty string"}},
           {"/pre_tokenizer", sequence(split("\\w+")), {"'\\w+'", "\\w", "read differently"}},
           {"/pre_tokenizer", sequence(split("\\h")), {"uses \\h"}},
       }) {
    expect_refused(refusal);
  }
}

TEST(TokenizerFile, RefusesBrokenVocabulariesMergesAndAddedTokens) {
  const auto added = [](json changes) {
    json token = {{"id", 400}, {"content", "<x>"}, {"special", true}};
    token.update(changes);
    return json::array({token});
  };
  for (const Refusal& refusal : std::vector<Refusal>{
           {"/model/vocab", json::array(), {"\"model.vocab\" is []", "an object"}},
           {"/model/vocab/ab", "3", {"\"model.vocab.ab\" is \"3\"", "a token id from 0"}},
           {"/model/vocab/ab", -1, {"\"model.vocab.ab\" is -1"}},
           {"/model/vocab/ab", 1.5, {"\"model.vocab.ab\" is 1.5"}},
           {"/model/vocab/ab", 18446744073709551615u, {"\"model.vocab.ab\" is 18446744073709551615"}},
           {"/model/vocab/ab", 1 << 24, {"\"model.vocab.ab\" is 16777216"}},
           {"/model/vocab/ab", 'q', {"is 113", "an id that no other token has"}},
           {"/model/merges", nullptr, {"\"model.merges\" is null", "a list"}},
           {"/model/merges/0", "ab", {"\"model.merges[0]\" is \"ab\"", "two tokens"}},
           {"/model/merges/0", json::array({"a", 1}), {"\"model.merges[0]\" is [\"a\",1]"}},
           {"/model/merges/0", {"a", "b", "c"}, {"\"model.merges[0]\""}},
           {"/model/merges/0", "a c", {"\"model.merges[0]\" is \"a c\"", "\"ac\" is not there"}},
           {"/model/merges/0", "a xy", {"\"xy\" is not there"}},
           {"/added_tokens", {{"a", 1}}, {"\"added_tokens\"", "a list"}},
           {"/added_tokens", json::array({3}), {"\"added_tokens[0]\" is 3", "an object"}},
           {"/added_tokens", added({{"content", ""}}), {"\"added_tokens[0].content\" is \"\""}},
           {"/added_tokens", added({{"content", 7}}), {"\"added_tokens[0].content\" is 7"}},
           {"/added_tokens",
            added({{"lstrip", true}}),
            {"\"added_tokens[0].lstrip\" is true", "supported: false"}},
           {"/added_tokens", added({{"rstrip", true}}), {"\"added_tokens[0].rstrip\" is true"}},
           {"/added_tokens", added({{"single_word", true}}), {"\"added_tokens[0].single_word\" is true"}},
           {"/added_tokens", added({{"special", 1}}), {"\"added_tokens[0].special\" is 1", "true or false"}},
           {"/added_tokens", added({{"id", nullptr}}), {"\"added_tokens[0].id\" is null"}},
           {"/added_tokens", added({{"id", 65}}), {"\"added_tokens[0].id\" is 65", "no other token"}},
           {"/added_tokens",
            added({{"content", "ab"}}),
            {"\"added_tokens[0].id\" is 400", "model.vocab", "300"}},
           {"/added_tokens/1", {{"id", 400}, {"content", "<|end|>"}}, {"\"added_tokens[1].content\""}},
       }) {
    expect_refused(refusal);
  }
}

TEST(TokenizerFile, RefusesAVocabularyThatWouldLoseBytes) {
  auto document = bytes_only_tokenizer();
  document["model"]["vocab"].erase("Ġ");
  const TemporaryFolder folder;
  const auto file = folder.write("tokenizer.json", document.dump());
  expect_error([&] { Tokenizer::load(file); }, {file.string(), "no token for byte 32 (written \"Ġ\")"});
}

TEST(TokenizerFile, DropsBytesOfRareTextThatTheVocabularyLacks) {
  auto document = bytes_only_tokenizer();
  for (const int byte : {0x00, 0x1d, 0x7f, 0xF1, 0xF2}) {
    document["model"]["vocab"].erase(byte_level_character(static_cast<std::uint8_t>(byte)));
  }
  const TemporaryFolder folder;
  const Tokenizer tokenizer = Tokenizer::load(folder.write("tokenizer.json", document.dump()));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("a\x1d"
                                              "b\x7f")),
            "ab");
  EXPECT_THAT(tokenizer.encode("\x1d"), testing::IsEmpty());
  EXPECT_THAT(tokenizer.encode("\U00040000"), testing::ElementsAre(0x80, 0x80, 0x80));
}

TEST(TokenizerFile, ReadsAVocabularyWithoutTheBytesThatUtf8NeverHolds) {
  auto document = bytes_only_tokenizer();
  for (const int byte : {0xC0, 0xC1, 0xF5, 0xFF}) {
    document["model"]["vocab"].erase(byte_level_character(static_cast<std::uint8_t>(byte)));
  }
  const TemporaryFolder folder;
  const Tokenizer tokenizer = Tokenizer::load(folder.write("tokenizer.json", document.dump()));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("\U0010ffff é")), "\U0010ffff é");
}

TEST(TokenizerFile, RefusesWhatIsNoTokenizerJson) {
  const TemporaryFolder folder;
  expect_error([&] { Tokenizer::load(folder.path()); },
               {(folder.path() / "tokenizer.json").string(),
                "cannot open this tokenizer.json of a Hugging Face folder", "No such file"});
  const auto expect_refusal = [&](const std::string& contents, const char* says) {
    expect_error([&] { read_tokenizer_file(folder.write("tokenizer.json", contents)); },
                 {"tokenizer.json", says});
  };
  expect_refusal("", "is not JSON");
  expect_refusal("[1, 2]", "an object is expected");
  expect_refusal("{\"model\": \"\xff\"}", "is not JSON");
  expect_refusal("{}", "\"model\" is null");
  expect_refusal("{\"a\":" + std::string(200000, '['), "nested deeper than 32");
}

// Cut or damaged anywhere, a file is read or refused; never a crash.
TEST(TokenizerFile, SurvivesDamage) {
  const TemporaryFolder folder;
  const std::string good = read_json(kQwen2Kind / "tokenizer.json").dump();
  std::mt19937 generator(5);
  for (int i = 0; i < 150; ++i) {
    std::string bad = good;
    if (i % 3 == 0) bad.resize(generator() % bad.size());
    for (int j = 0; j < 3 && i % 3 != 0; ++j) {
      bad[generator() % bad.size()] = "0123456789\",:[]{}ax\\"[generator() % 19];
    }
    try {
      const Tokenizer tokenizer = Tokenizer::load(folder.write("tokenizer.json", bad));
      tokenizer.decode(tokenizer.encode("it's 12 cafe\u0301 <|im_end|>\n\n"));
    } catch (const Error& refused) {
      EXPECT_THAT(refused.what(), HasSubstr("tokenizer.json"));
    }
  }
}

TEST(TokenizerConfig, RefusesBrokenRoles) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", bytes_only_tokenizer().dump());
  const auto expect_refusal = [&](const char* config, const char* names, const char* says) {
    folder.write("tokenizer_config.json", config);
    expect_error([&] { Tokenizer::load(folder.path()); }, {names, says});
  };
  expect_refusal("{", "tokenizer_config.json", "is not JSON");
  expect_refusal("[]", "tokenizer_config.json", "an object is expected");
  expect_refusal(R"({"mask_token": 7})", "\"mask_token\"", "type number");
  expect_refusal(R"({"mask_token": "<|MASK|>"})", "no token \"<|MASK|>\"", "\"mask_token\"");
}

}  // namespace
}  // namespace draftsmith
