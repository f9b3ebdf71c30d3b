// Added tokens, found in raw text before anything else cuts it: the leftmost match wins, and of those that
// start there the longest.
//
// Constant after construction: any thread may scan.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace draftsmith {

struct AddedToken {
  std::string content;
  std::int32_t id;
  bool special;
  bool normalized;  // matched in normalized text, after those that are not
};

class AddedTokenScanner {
 public:
  explicit AddedTokenScanner(const std::vector<AddedToken>& tokens);

  // Calls `visit` for every piece in order; `id` is empty for the text between added tokens. Pieces are not
  // empty.
  using Visit = std::function<void(std::string_view piece, std::optional<std::int32_t> id)>;
  void scan(std::string_view text, const Visit& visit) const;

 private:
  const AddedToken* longest_at(std::string_view rest) const;

  std::array<std::vector<AddedToken>, 256> by_first_byte_;  // each longest first
};

}  // namespace draftsmith
