#include "app/block_printer.h"

namespace draftsmith {
namespace {

constexpr const char* kColours[] = {"\033[32m", "\033[36m"};  // green, cyan
constexpr const char* kPlain = "\033[0m";

}  // namespace

void BlockPrinter::print(std::span<const std::int32_t> committed, const DraftCycle* cycle) {
  const std::int64_t accepted = cycle == nullptr ? 0 : cycle->accepted;
  if (style_ == BlockStyle::hidden) {
    for (const std::int32_t token : committed) out_ << decoder_.push(token);
  } else {
    print_run(committed.first(static_cast<std::size_t>(accepted)));
    for (const std::int32_t token : committed.subspan(static_cast<std::size_t>(accepted))) {
      out_ << decoder_.push(token);
    }
  }
  out_ << std::flush;
}

// Tokens without text, such as a stop token or the first bytes of a character, leave no mark.
void BlockPrinter::print_run(std::span<const std::int32_t> accepted) {
  std::string run;
  for (const std::int32_t token : accepted) {
    const std::string text = decoder_.push(token);
    if (text.empty()) continue;
    if (style_ == BlockStyle::brackets && !run.empty()) run += '|';
    run += text;
  }
  if (run.empty()) return;
  if (style_ == BlockStyle::brackets) {
    out_ << '[' << run << ']';
  } else {
    out_ << kColours[second_colour_ ? 1 : 0] << run << kPlain;
    second_colour_ = !second_colour_;
  }
}

void BlockPrinter::finish() { out_ << decoder_.finish() << '\n' << std::flush; }

}  // namespace draftsmith
