#include "data/pretokenizer.h"

#include <array>
#include <cstdint>
#include <new>

#include "base/error.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace draftsmith {
namespace {

constexpr std::size_t kJitStackStartBytes = 32 << 10;
constexpr std::size_t kJitStackLimitBytes = 64 << 20;  // grows only as far as a match needs

template <auto destroy>
struct Destroy {
  template <typename T>
  void operator()(T* handle) const {
    destroy(handle);
  }
};
using Code = std::unique_ptr<pcre2_code, Destroy<pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Destroy<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Destroy<pcre2_match_context_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Destroy<pcre2_jit_stack_free>>;

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

// The same pattern in PCRE2's terms.
std::string translated(const std::string& pattern) {
  static constexpr std::string_view kSameMeaning = "rntfpPdDx";
  std::string result;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '\\' || i + 1 == pattern.size()) {
      result += pattern[i];
      continue;
    }
    const char escape = pattern[++i];
    const bool names_something = (escape >= 'a' && escape <= 'z') || (escape >= 'A' && escape <= 'Z') ||
                                 (escape >= '0' && escape <= '9');
    if (escape == 's') {
      result += "\\p{White_Space}";
    } else if (escape == 'S') {
      result += "\\P{White_Space}";
    } else if (!names_something || kSameMeaning.find(escape) != std::string_view::npos) {
      result += {'\\', escape};
    } else {
      throw Error(
          "the pattern '" + pattern + "' uses \\" + escape +
          ", which regular expression libraries read differently; the escapes read here are \\s \\S \\p "
          "\\P \\d \\D \\r \\n \\t \\f \\x and escaped punctuation");
    }
  }
  return result;
}

// The matches of one pattern in one text.
class Matcher {
 public:
  Matcher(const pcre2_code* code, std::string_view text)
      : code_(code),
        text_(text),
        context_(pcre2_match_context_create(nullptr)),
        data_(pcre2_match_data_create_from_pattern(code, nullptr)) {
    if (!context_ || !data_) throw std::bad_alloc();
  }

  // The first match at or after `offset`; empty when there is none.
  std::string_view find(std::size_t offset) {
    int found = match(offset);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT && !stack_) {  // rare: a long match with many ways to go back
      stack_.reset(pcre2_jit_stack_create(kJitStackStartBytes, kJitStackLimitBytes, nullptr));
      if (!stack_) throw std::bad_alloc();
      pcre2_jit_stack_assign(context_.get(), nullptr, stack_.get());
      found = match(offset);
    }
    if (found == PCRE2_ERROR_NOMATCH) return {};
    if (found < 0) {
      throw Error("splitting text into words failed at byte " + std::to_string(offset) + ": " +
                  message_of(found));
    }
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(data_.get());
    return text_.substr(bounds[0], bounds[1] - bounds[0]);
  }

 private:
  int match(std::size_t offset) {
    return pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text_.data()), text_.size(), offset,
                       PCRE2_NO_UTF_CHECK, data_.get(), context_.get());
  }

  const pcre2_code* code_;
  std::string_view text_;
  JitStack stack_;  // before the context that refers to it
  MatchContext context_;
  MatchData data_;
};

}  // namespace

struct Pretokenizer::Pattern {
  Code code;

  void split(std::string_view text, std::vector<std::string_view>& pieces) const;
};

void Pretokenizer::Pattern::split(std::string_view text, std::vector<std::string_view>& pieces) const {
  Matcher matcher(code.get(), text);
  std::size_t offset = 0;
  while (offset < text.size()) {
    const std::string_view word = matcher.find(offset);
    if (word.empty()) break;
    const std::size_t begin = word.data() - text.data();
    if (begin > offset) pieces.push_back(text.substr(offset, begin - offset));
    pieces.push_back(word);
    offset = begin + word.size();
  }
  if (offset < text.size()) pieces.push_back(text.substr(offset));
}

Pretokenizer::Pretokenizer(const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    const std::string ours = translated(pattern);
    int error = 0;
    PCRE2_SIZE error_offset = 0;
    Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(ours.data()), ours.size(),
                            PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &error_offset, nullptr));
    if (!code) {
      throw Error("the pattern '" + pattern + "' is not a regular expression that PCRE2 reads: " +
                  message_of(error) + " (at byte " + std::to_string(error_offset) + " of '" + ours + "')");
    }
    std::uint32_t matches_empty = 0;
    pcre2_pattern_info(code.get(), PCRE2_INFO_MATCHEMPTY, &matches_empty);
    if (matches_empty != 0) {
      throw Error("the pattern '" + pattern +
                  "' can match the empty string; a pattern that cuts words must not");
    }
    // Without a just-in-time compiler for this machine PCRE2 interprets the pattern: the same matches,
    // slower.
    pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
    patterns_.push_back(std::make_unique<const Pattern>(Pattern{std::move(code)}));
  }
}

Pretokenizer::~Pretokenizer() = default;
Pretokenizer::Pretokenizer(Pretokenizer&&) noexcept = default;
Pretokenizer& Pretokenizer::operator=(Pretokenizer&&) noexcept = default;

void Pretokenizer::split(std::string_view text, std::vector<std::string_view>& words) const {
  if (text.empty()) return;
  std::vector<std::string_view> pieces{text};
  std::vector<std::string_view> cut;
  for (const auto& pattern : patterns_) {
    cut.clear();
    for (const std::string_view piece : pieces) pattern->split(piece, cut);
    pieces.swap(cut);
  }
  words.insert(words.end(), pieces.begin(), pieces.end());
}

}  // namespace draftsmith
