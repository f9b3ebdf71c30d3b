#include "data/bpe.h"

#include <algorithm>

#include "base/error.h"
#include "data/byte_level.h"

namespace draftsmith {
namespace {

// Whether common text needs the byte. Others are control characters, the lead bytes of planes 4 to 16, which
// hold next to nothing, and what UTF-8 never holds; released vocabularies lack some of them.
bool is_needed(int byte) {
  const bool is_control = (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7F;
  return !is_control && byte <= 0xF0 && byte != 0xC0 && byte != 0xC1;
}

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

// Makes the standard heap, which keeps the greatest on top, keep the lowest rank and then the leftmost place.
bool comes_later(const Bpe::Scratch::Candidate& a, const Bpe::Scratch::Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
}

}  // namespace

Bpe::Bpe(const std::vector<BpeToken>& tokens, const std::vector<BpeMerge>& merges, WholeWords whole_words) {
  tokens_.reserve(tokens.size());
  for (const BpeToken& token : tokens)
    tokens_.insert_or_assign(token.bytes, Entry{token.id, whole_words == WholeWords::all});
  merges_.reserve(merges.size());
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const BpeMerge& merge = merges[rank];
    merges_.insert_or_assign(pair_key(merge.left, merge.right),
                             Merge{static_cast<std::int32_t>(rank), merge.result});
  }
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = tokens_.find(std::string(1, static_cast<char>(byte)));
    byte_ids_[byte] = found == tokens_.end() ? -1 : found->second.id;
    if (byte_ids_[byte] < 0 && is_needed(byte)) {
      throw Error("the vocabulary has no token for byte " + std::to_string(byte) + " (written \"" +
                  byte_level_character(static_cast<std::uint8_t>(byte)) +
                  "\"); a byte-level BPE needs one for every byte of common text, which would be lost");
    }
  }
  if (whole_words == WholeWords::all) return;
  Scratch scratch;
  std::vector<std::int32_t> ids;
  for (auto& [bytes, entry] : tokens_) {
    const bool spelled = std::all_of(bytes.begin(), bytes.end(), [&](char byte) {
      return byte_ids_[static_cast<std::uint8_t>(byte)] >= 0;
    });
    if (!spelled) continue;
    ids.clear();
    merge_word(bytes, scratch, ids);
    entry.looked_up_whole = ids.size() == 1 && ids[0] == entry.id;
  }
}

std::optional<std::int32_t> Bpe::id_of(std::string_view bytes) const {
  const auto found = tokens_.find(bytes);
  if (found == tokens_.end()) return std::nullopt;
  return found->second.id;
}

void Bpe::encode(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& ids) const {
  const auto found = tokens_.find(word);
  if (found != tokens_.end() && found->second.looked_up_whole) {
    ids.push_back(found->second.id);
  } else {
    merge_word(word, scratch, ids);
  }
}

const Bpe::Merge* Bpe::merge_of(std::int32_t left, std::int32_t right) const {
  const auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

// Puts the pair that starts at `at` on the heap if it has a merge.
void Bpe::offer(std::int32_t at, Scratch& scratch) const {
  const std::int32_t next = scratch.symbols[at].next;
  if (next < 0) return;
  const Merge* merge = merge_of(scratch.symbols[at].id, scratch.symbols[next].id);
  if (merge == nullptr) return;
  scratch.heap.push_back({merge->rank, at});
  std::push_heap(scratch.heap.begin(), scratch.heap.end(), comes_later);
}

void Bpe::merge_word(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& ids) const {
  auto& symbols = scratch.symbols;
  symbols.clear();
  scratch.heap.clear();
  for (const char byte : word) {
    const std::int32_t id = byte_ids_[static_cast<std::uint8_t>(byte)];
    const auto at = static_cast<std::int32_t>(symbols.size());
    if (id >= 0) symbols.push_back({id, at - 1, at + 1});
  }
  if (symbols.empty()) return;
  symbols.back().next = -1;
  const auto count = static_cast<std::int32_t>(symbols.size());
  for (std::int32_t i = 0; i < count; ++i) offer(i, scratch);
  while (!scratch.heap.empty()) {
    std::pop_heap(scratch.heap.begin(), scratch.heap.end(), comes_later);
    const Scratch::Candidate candidate = scratch.heap.back();
    scratch.heap.pop_back();
    Scratch::Symbol& left = symbols[candidate.at];
    if (left.id < 0 || left.next < 0) continue;
    // A candidate goes stale when a neighbour is merged first: then its pair has another rank or none.
    const Merge* merge = merge_of(left.id, symbols[left.next].id);
    if (merge == nullptr || merge->rank != candidate.rank) continue;
    Scratch::Symbol& right = symbols[left.next];
    left.id = merge->result;
    left.next = right.next;
    right.id = -1;
    if (left.next >= 0) symbols[left.next].previous = candidate.at;
    offer(candidate.at, scratch);
    if (left.previous >= 0) offer(left.previous, scratch);
  }
  for (std::int32_t i = 0; i >= 0; i = symbols[i].next) ids.push_back(symbols[i].id);
}

}  // namespace draftsmith
