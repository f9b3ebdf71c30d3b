#include "data/pretokenizer.h"

#include <gmock/gmock.h>

namespace draftsmith {
namespace {

using testing::ElementsAre;

std::vector<std::string_view> words_of(const std::vector<std::string>& patterns, std::string_view text) {
  std::vector<std::string_view> words;
  Pretokenizer(patterns).split(text, words);
  return words;
}

TEST(Pretokenizer, KeepsMatchesAndWhatLiesBetweenThem) {
  EXPECT_THAT(words_of({"\\p{N}+"}, "a12b3"), ElementsAre("a", "12", "b", "3"));
  EXPECT_THAT(words_of({"x"}, "abc"), ElementsAre("abc"));
  EXPECT_THAT(words_of({}, "abc"), ElementsAre("abc"));
  EXPECT_THAT(words_of({"x"}, ""), ElementsAre());
}

TEST(Pretokenizer, EachPatternCutsThePiecesOfTheOneBefore) {
  EXPECT_THAT(words_of({"\\p{N}+", "[ab]"}, "ab12c"), ElementsAre("a", "b", "12", "c"));
  // A piece ends where the pattern before cut it: "(?!\\S)" sees no further.
  EXPECT_THAT(words_of({"x", "\\s+(?!\\S)"}, "a  xb"), ElementsAre("a", "  ", "x", "b"));
}

TEST(Pretokenizer, WhiteSpaceIsTheUnicodeProperty) {
  EXPECT_THAT(words_of({"[^\\s]+"}, "a\u0085b\u3000c"), ElementsAre("a", "\u0085", "b", "\u3000", "c"));
  EXPECT_THAT(words_of({"\\s+"}, "a\u180eb\u200bc"), ElementsAre("a\u180eb\u200bc"));  // no longer, never was
}

TEST(Pretokenizer, LongMatchesWithManyWaysBackSucceed) {
  std::string text;
  while (text.size() < 500000) text += "xy";
  EXPECT_THAT(words_of({"(?:x|y|xyx)+z?"}, text), ElementsAre(text));
}

}  // namespace
}  // namespace draftsmith
