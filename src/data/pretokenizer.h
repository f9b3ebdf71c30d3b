// Cuts text into the words that BPE merges inside: every pattern in turn cuts each piece into its matches and
// what lies between them ("Split", behaviour "Isolated"). Nothing is dropped: the words in order are the
// text.
//
// Patterns are those of tokenizer.json, written for Oniguruma, run by PCRE2 with Unicode properties. `\s` and
// `\S` become the White_Space property, which is what Oniguruma means by them. Escapes that the two read
// differently (\h, \w, \b, \v, …) are refused, and so is a pattern that matches the empty string. Letters and
// digits are those of PCRE2's Unicode.
//
// Constant after construction: any thread may split.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace draftsmith {

class Pretokenizer {
 public:
  // Throws Error, quoting the pattern, when one cannot be used.
  explicit Pretokenizer(const std::vector<std::string>& patterns);
  ~Pretokenizer();
  Pretokenizer(Pretokenizer&&) noexcept;
  Pretokenizer& operator=(Pretokenizer&&) noexcept;

  // Appends views into `text`, which is well-formed UTF-8.
  void split(std::string_view text, std::vector<std::string_view>& words) const;

 private:
  struct Pattern;
  std::vector<std::unique_ptr<const Pattern>> patterns_;
};

}  // namespace draftsmith
