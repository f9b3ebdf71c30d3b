#include "data/added_tokens.h"

#include <algorithm>

namespace draftsmith {

AddedTokenScanner::AddedTokenScanner(const std::vector<AddedToken>& tokens) {
  for (const AddedToken& token : tokens) {
    by_first_byte_[static_cast<std::uint8_t>(token.content.front())].push_back(token);
  }
  for (auto& bucket : by_first_byte_) {
    std::stable_sort(bucket.begin(), bucket.end(), [](const AddedToken& a, const AddedToken& b) {
      return a.content.size() > b.content.size();
    });
  }
}

const AddedToken* AddedTokenScanner::longest_at(std::string_view rest) const {
  for (const AddedToken& token : by_first_byte_[static_cast<std::uint8_t>(rest.front())]) {
    if (rest.starts_with(token.content)) return &token;
  }
  return nullptr;
}

void AddedTokenScanner::scan(std::string_view text, const Visit& visit) const {
  std::size_t begin = 0;  // of the text that no token has claimed
  std::size_t at = 0;
  while (at < text.size()) {
    const AddedToken* token = longest_at(text.substr(at));
    if (token == nullptr) {
      ++at;
      continue;
    }
    if (at > begin) visit(text.substr(begin, at - begin), std::nullopt);
    visit(text.substr(at, token->content.size()), token->id);
    at += token->content.size();
    begin = at;
  }
  if (begin < text.size()) visit(text.substr(begin), std::nullopt);
}

}  // namespace draftsmith
