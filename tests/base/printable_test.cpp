#include "base/printable.h"

#include <gtest/gtest.h>

namespace draftsmith {
namespace {

TEST(Printable, ControlCharactersAreWrittenOut) {
  EXPECT_EQ(printable("a\x1b[31m\tb\x7f\r"), "a\\u001b[31m\\tb\\u007f\\r");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\u0000b");
}

TEST(Printable, WordsOfAnyLanguageAndLineBreaksStay) { EXPECT_EQ(printable("é ~ 日\n"), "é ~ 日\n"); }

TEST(Printable, ALineStaysOne) { EXPECT_EQ(printable_line("a\nb"), "a\\nb"); }

}  // namespace
}  // namespace draftsmith
