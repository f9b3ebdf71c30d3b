// Prints a generation while it comes. With blocks shown, what a cycle committed is one group: proposals that
// the target accepted, then the target's own token.
//   on a terminal:  accepted runs in colour, two by turns so that neighbours stay apart; the bonus plain
//   elsewhere:      [accepted|run]bonus
#pragma once

#include <cstdint>
#include <ostream>
#include <span>
#include <string>

#include "data/tokenizer.h"
#include "generate/speculate.h"

namespace draftsmith {

enum class BlockStyle { hidden, brackets, colours };

// Owned by one thread. Flushes after every cycle.
class BlockPrinter {
 public:
  BlockPrinter(std::ostream& out, const Tokenizer& tokenizer, BlockStyle style)
      : out_(out), decoder_(tokenizer, SpecialTokens::skip), style_(style) {}

  // As a GenerationObserver is called.
  void print(std::span<const std::int32_t> committed, const DraftCycle* cycle);
  // What is left of the last character, and the end of the line.
  void finish();

 private:
  void print_run(std::span<const std::int32_t> accepted);

  std::ostream& out_;
  StreamDecoder decoder_;
  const BlockStyle style_;
  bool second_colour_ = false;
};

}  // namespace draftsmith
