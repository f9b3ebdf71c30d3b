#include "data/json_mistake.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/json.h"
#include "data/tokenizer_config.h"
#include "data/tokenizer_file.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"

namespace draftsmith {
namespace {

constexpr const char* kAdvice = "; it seems to be cut there: get the file again as a whole";

TEST(JsonMistake, SaysThePlaceWithoutTheParsersTag) {
  EXPECT_EQ(json_mistake(
                "[json.exception.parse_error.101] parse error at line 2, column 7: syntax error - no value",
                16, 20),
            "line 2, column 7: syntax error - no value");
  EXPECT_EQ(json_mistake("[json.exception.out_of_range.406] number overflow parsing '1e999'", 6, 7),
            "number overflow parsing '1e999'");
}

TEST(JsonMistake, QuotesNothingOfTheText) {
  EXPECT_EQ(json_mistake("syntax error - invalid string; last read: '\"\xff'", 2, 3),
            "syntax error - invalid string");
  EXPECT_EQ(json_mistake("number overflow parsing " + std::string(1 << 20, '9'), 1, 2).size(), 200u);
}

// Wherever a file is cut, in a list, a text, a word or a character, the advice is there; and only then.
TEST(JsonMistake, AFileThatWasCutIsToldApart) {
  const std::string whole = R"({"list": [1, -2.5e3, true, null], "text": "é\u00e9\n"})";
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string cut = whole.substr(0, size);
    expect_error([&] { parse_json(cut, "config.json"); },
                 {"config.json: expected JSON, found a mistake: line 1, column ", kAdvice});
  }
  try {
    parse_json("{\"a\": 1,\n \"b\": }", "config.json");
    FAIL() << "it was parsed";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "config.json: expected JSON, found a mistake: line 2, column 7: syntax error while "
                 "parsing value - unexpected '}'; expected '[', '{', or a literal");
  }
}

TEST(JsonMistake, TheTokenizersFilesSayItToo) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", R"({"model": {)");
  folder.write("tokenizer_config.json", R"({"mask_token": "<|MA)");
  expect_error([&] { read_tokenizer_file(folder.path() / "tokenizer.json"); },
               {"tokenizer.json: is not JSON: line 1, column 12: syntax error", kAdvice});
  expect_error([&] { read_tokenizer_config(folder.path()); },
               {"tokenizer_config.json: is not JSON: line 1, column 21: syntax error", kAdvice});
}

}  // namespace
}  // namespace draftsmith
