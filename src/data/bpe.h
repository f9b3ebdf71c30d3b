// Byte-pair merges: a word starts as one token a byte; of the neighbouring pairs that have a merge, the one
// of lowest rank (leftmost on a tie) becomes one token, until no pair has a merge. A heap keeps long words at
// O(n log n).
//
// A word that is itself a token, and that its own merges reach, is looked up whole: which tokens those are is
// worked out once, in the constructor. Some files ask to look up every token ("ignore_merges").
//
// Constant after construction: any thread may encode, with its own scratch.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace draftsmith {

struct BpeToken {
  std::string bytes;
  std::int32_t id;
};

// `left` followed by `right` becomes `result`; the place in the list of merges is the rank.
struct BpeMerge {
  std::int32_t left;
  std::int32_t right;
  std::int32_t result;
};

// Which words that are tokens are looked up whole.
enum class WholeWords { reached_by_merges, all };

class Bpe {
 public:
  // What one encoding thread reuses from word to word.
  struct Scratch {
    struct Symbol {
      std::int32_t id;  // -1 once it is merged into its left neighbour
      std::int32_t previous;
      std::int32_t next;
    };
    struct Candidate {
      std::int32_t rank;
      std::int32_t at;
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
  };

  // Bytes that only control characters and the planes from 4 on need may have no token: they are dropped, as
  // the reference implementation does. Throws Error, naming the byte, when another one of UTF-8 has none.
  Bpe(const std::vector<BpeToken>& tokens, const std::vector<BpeMerge>& merges, WholeWords whole_words);

  // Appends the tokens of one word of at most 2^31 - 1 bytes.
  void encode(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& ids) const;

  std::optional<std::int32_t> id_of(std::string_view bytes) const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  struct Entry {
    std::int32_t id;
    bool looked_up_whole;
  };
  struct Merge {
    std::int32_t rank;
    std::int32_t result;
  };

  const Merge* merge_of(std::int32_t left, std::int32_t right) const;
  void offer(std::int32_t at, Scratch& scratch) const;
  void merge_word(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& ids) const;

  std::unordered_map<std::string, Entry, Hash, std::equal_to<>> tokens_;
  std::unordered_map<std::uint64_t, Merge> merges_;  // by left << 32 | right
  std::array<std::int32_t, 256> byte_ids_;           // -1 for the bytes without a token
};

}  // namespace draftsmith
