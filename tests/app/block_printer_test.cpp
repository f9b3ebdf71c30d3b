#include "app/block_printer.h"

#include <filesystem>
#include <sstream>
#include <vector>

#include <gtest/gtest.h>

namespace draftsmith {
namespace {

class BlockPrinterTest : public testing::Test {
 protected:
  // "a", then a cycle that accepts "b" and "c" with bonus "d", one that accepts nothing with bonus "e", and
  // one that accepts "f" and the stop token.
  std::string print(BlockStyle style) const {
    std::ostringstream out;
    BlockPrinter printer(out, tokenizer_, style);
    const auto ids = [&](const std::string& text) { return tokenizer_.encode(text); };
    std::vector<std::int32_t> last = ids("f");
    last.push_back(*tokenizer_.id_of("<|im_end|>"));
    printer.print(ids("a"), nullptr);
    const std::vector<std::int32_t> first{ids("b")[0], ids("c")[0], ids("d")[0]};
    const DraftCycle accepts_two{.accepted = 2, .committed = 3}, accepts_none{.accepted = 0, .committed = 1},
        accepts_all{.accepted = 2, .committed = 2};
    printer.print(first, &accepts_two);
    printer.print(ids("e"), &accepts_none);
    printer.print(last, &accepts_all);
    printer.finish();
    return out.str();
  }

  const Tokenizer tokenizer_ =
      Tokenizer::load(std::filesystem::path(DRAFTSMITH_SOURCE_DIR) / "examples/demo/target");
};

TEST_F(BlockPrinterTest, BracketsHoldWhatWasAccepted) {
  EXPECT_EQ(print(BlockStyle::brackets), "a[b|c]de[f]\n");
}

TEST_F(BlockPrinterTest, ColoursAlternateBetweenAcceptedRuns) {
  EXPECT_EQ(print(BlockStyle::colours), "a\033[32mbc\033[0mde\033[36mf\033[0m\n");
}

TEST_F(BlockPrinterTest, WithoutBlocksOnlyTheTextIsPrinted) {
  EXPECT_EQ(print(BlockStyle::hidden), "abcdef\n");
}

}  // namespace
}  // namespace draftsmith
