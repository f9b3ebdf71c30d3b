#include "data/tokenizer.h"

#include <random>
#include <thread>

#include "text_fixtures.h"

namespace draftsmith {
namespace {

using testing::ElementsAre;

std::vector<std::int32_t> bytes_as_ids(std::string_view text) {
  std::vector<std::int32_t> ids;
  for (const char byte : text) ids.push_back(static_cast<std::uint8_t>(byte));
  return ids;
}

void append_character(std::string& text, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0 | code >> 6);
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
  }
  put(0x80 | (code & 0x3F));
}

// Characters of every plane, assigned or not.
std::string random_text(std::mt19937& generator) {
  constexpr std::uint32_t kBelow[] = {0x80, 0x250, 0x3100, 0xD800, 0x20000, 0x110000};
  std::string text;
  for (std::uint32_t left = generator() % 40; left > 0; --left) {
    const std::uint32_t code = generator() % kBelow[generator() % std::size(kBelow)];
    if (code < 0xD800 || code > 0xDFFF) append_character(text, code);
  }
  return text;
}

Tokenizer load(const nlohmann::json& document) {
  const TemporaryFolder folder;
  return Tokenizer::load(folder.write("tokenizer.json", document.dump()));
}

TEST(Tokenizer, WithoutNormalizerEveryTextComesBackByteForByte) {
  const Tokenizer demo = Tokenizer::load(kDemoTarget);
  const Tokenizer bytes = load(bytes_only_tokenizer());
  std::mt19937 generator(11);
  for (int i = 0; i < 4000; ++i) {
    const std::string text = random_text(generator);
    EXPECT_EQ(demo.decode(demo.encode(text)), text);
    EXPECT_EQ(bytes.encode(text), bytes_as_ids(text));
  }
}

TEST(Tokenizer, WithNfcEveryTextComesBackComposed) {
  const Tokenizer tokenizer = Tokenizer::load(kQwen2Kind);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("cafe\u0301 \u212b \u1100\u1161")), "caf\u00e9 \u00c5 \uac00");
  std::mt19937 generator(12);
  for (int i = 0; i < 4000; ++i) {
    const std::string composed = tokenizer.decode(tokenizer.encode(random_text(generator)));
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(composed)), composed);  // NFC of NFC
  }
}

TEST(Tokenizer, MergesByRankLeftmostFirst) {
  auto document = bytes_only_tokenizer();
  auto& model = document["model"];
  for (const auto& [text, id] :
       {std::pair("ab", 300), {"bc", 301}, {"abc", 302}, {"aa", 303}, {"unreached", 304}}) {
    model["vocab"][text] = id;
  }
  model["merges"] = {"b c", "a b", "ab c", "a a"};
  const Tokenizer tokenizer = load(document);
  EXPECT_THAT(tokenizer.encode("abc"), ElementsAre('a', 301));  // "b c" ranks first; "a bc" is no merge
  EXPECT_THAT(tokenizer.encode("abab"), ElementsAre(300, 300));
  EXPECT_THAT(tokenizer.encode("aaaaa"), ElementsAre(303, 303, 'a'));
  EXPECT_EQ(tokenizer.encode("unreached"),
            bytes_as_ids("unreached"));  // in the vocabulary, but no merges reach it
  EXPECT_EQ(tokenizer.size(), 305);
  EXPECT_FALSE(tokenizer.has_token(299));
  EXPECT_EQ(tokenizer.decode(std::vector<std::int32_t>{299, 300, -1, 1000000}), "ab");
}

TEST(Tokenizer, ReadsBothSpellingsOfMerges) {
  auto document = read_json(kDemoTarget / "tokenizer.json");
  const Tokenizer arrays = load(document);
  for (auto& merge : document["model"]["merges"]) {
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  }
  const Tokenizer strings = load(document);
  const std::string text = "And it came to pass, that the 12 rows were 3 x 4 = 12.";
  EXPECT_EQ(strings.encode(text), arrays.encode(text));
}

TEST(Tokenizer, TakesTheLeftmostAndThenTheLongestAddedToken) {
  auto document = bytes_only_tokenizer();
  for (const auto& [content, id] : {std::pair("<a>", 300), {"<a><b>", 301}, {"<b>", 302}, {"b><", 303}}) {
    document["added_tokens"].push_back({{"id", id}, {"content", content}, {"normalized", false}});
  }
  const Tokenizer tokenizer = load(document);
  EXPECT_THAT(tokenizer.encode("<a><b><b>"), ElementsAre(301, 302));
  EXPECT_THAT(tokenizer.encode("<a>b><b>"), ElementsAre(300, 303, 'b', '>'));
  EXPECT_THAT(tokenizer.encode("<|end|>x<|end|"), ElementsAre(256, 'x', '<', '|', 'e', 'n', 'd', '|'));
}

TEST(Tokenizer, SkipsSpecialTokensOnlyWhenAsked) {
  const Tokenizer tokenizer = Tokenizer::load(kQwen2Kind);
  const auto ids = tokenizer.encode("<|im_start|>a<tool>b<|im_end|>");
  EXPECT_EQ(tokenizer.decode(ids), "<|im_start|>a<tool>b<|im_end|>");
  EXPECT_EQ(tokenizer.decode(ids, SpecialTokens::skip), "a<tool>b");
}

TEST(Tokenizer, KnowsTheRolesOfSpecialTokens) {
  const Tokenizer demo = Tokenizer::load(kDemoTarget);
  EXPECT_EQ(demo.mask_token(), 4095);
  EXPECT_EQ(demo.eos_token(), 4094);
  EXPECT_EQ(demo.pad_token(), 4092);
  EXPECT_EQ(demo.bos_token(), std::nullopt);
  EXPECT_EQ(demo.size(), 4096);
  EXPECT_EQ(demo.id_of("<|im_start|>"), 4093);
  EXPECT_EQ(demo.id_of("no such token"), std::nullopt);
  EXPECT_EQ(demo.bytes_of(*demo.id_of(" the")), " the");
}

TEST(Tokenizer, ReadsRolesFromEitherFileAndEitherForm) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", bytes_only_tokenizer().dump());
  folder.write("tokenizer_config.json", R"({"eos_token": {"content": "<|end|>"}, "bos_token": null})");
  folder.write("special_tokens_map.json", R"({"eos_token": "a", "pad_token": "b"})");
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer.eos_token(), 256);
  EXPECT_EQ(tokenizer.pad_token(), 'b');
  EXPECT_EQ(tokenizer.bos_token(), std::nullopt);
}

TEST(Tokenizer, SplitsLongWordsAndLongRunsInReasonableTime) {
  const Tokenizer tokenizer = Tokenizer::load(kQwen2Kind);
  for (const std::string& part : {std::string("a"), std::string(" "), std::string("\n"), std::string("日"),
                                  std::string("'s"), std::string("!"), std::string("e\u0301 ")}) {
    std::string text;
    while (text.size() < (1 << 19)) text += part;
    const std::string back = tokenizer.decode(tokenizer.encode(text));
    EXPECT_EQ(back, part == "e\u0301 " ? tokenizer.decode(tokenizer.encode(back)) : text);
  }
}

TEST(Tokenizer, AnyThreadMayEncode) {
  const Tokenizer tokenizer = Tokenizer::load(kQwen2Kind);
  const auto encode_many = [&tokenizer](std::vector<std::vector<std::int32_t>>& results) {
    std::mt19937 generator(14);
    for (auto& ids : results) ids = tokenizer.encode(random_text(generator));
  };
  std::vector<std::vector<std::int32_t>> first(300), second(300);
  std::thread thread(encode_many, std::ref(first));
  encode_many(second);
  thread.join();
  EXPECT_EQ(first, second);
}

TEST(Tokenizer, RefusesTextThatIsNotUtf8) {
  const Tokenizer tokenizer = Tokenizer::load(kDemoTarget);
  for (const char* text :
       {"ab\xff", "ab\xc0\x80", "ab\xed\xa0\x80", "ab\xf4\x90\x80\x80", "ab\xe3\x81", "ab\x80"}) {
    expect_error([&] { tokenizer.encode(text); }, {"not UTF-8: the byte at offset 2"});
  }
}

TEST(StreamDecoder, HoldsBackHalfACharacter) {
  const Tokenizer tokenizer = load(bytes_only_tokenizer());
  StreamDecoder decoder(tokenizer);
  EXPECT_EQ(decoder.push('a'), "a");
  EXPECT_EQ(decoder.push(0xF0), "");
  EXPECT_EQ(decoder.push(0x9F), "");
  EXPECT_EQ(decoder.push(0x98), "");
  EXPECT_EQ(decoder.push(0x80), "😀");
  EXPECT_EQ(decoder.push(0xE3), "");
  EXPECT_EQ(decoder.push('b'), "\uFFFDb");  // the character broke off
  EXPECT_EQ(decoder.push(0xFF), "\uFFFD");
  EXPECT_EQ(decoder.push(0xC3), "");
  EXPECT_EQ(decoder.finish(), "\uFFFD");
  EXPECT_EQ(decoder.finish(), "");
  EXPECT_EQ(StreamDecoder(tokenizer, SpecialTokens::skip).push(256), "");
  EXPECT_EQ(StreamDecoder(tokenizer).push(256), "<|end|>");
}

TEST(StreamDecoder, SaysInPiecesWhatDecodeSaysAtOnce) {
  const Tokenizer tokenizer = Tokenizer::load(kDemoTarget);
  std::mt19937 generator(13);
  for (int i = 0; i < 500; ++i) {
    std::vector<std::int32_t> ids(generator() % 60);
    for (auto& id : ids) id = static_cast<std::int32_t>(generator() % (i % 2 == 0 ? 256 : 4096));
    StreamDecoder decoder(tokenizer);
    std::string text;
    for (const std::int32_t id : ids) text += decoder.push(id);
    EXPECT_EQ(text + decoder.finish(), tokenizer.decode(ids));
  }
}

}  // namespace
}  // namespace draftsmith
