// tokenizer.json as plain values. Reads byte-level BPE of the Qwen2, Llama 3, GPT-2 and SmolLM kinds and
// refuses the rest by key:
//   - normalizer: null or NFC;
//   - pre_tokenizer: ByteLevel, or a Sequence of Split (Regex, Isolated) and Digits that ends with ByteLevel,
//     without a prefix space;
//   - model: BPE with merges as "a b" or ["a", "b"]; no dropout, byte_fallback, prefix or suffix;
//   - post_processor: null, ByteLevel (it moves offsets only) or TemplateProcessing (it adds special tokens
//     around a whole text, which encoding here never does), or a Sequence of these; decoder: ByteLevel;
//   - added_tokens: special or not, normalized or not; lstrip, rstrip and single_word are refused.
//
// "truncation" and "padding" are left to whoever makes batches.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/added_tokens.h"
#include "data/bpe.h"

namespace draftsmith {

struct TokenizerFile {
  struct Token {
    std::string text;  // in the byte-level alphabet
    std::int32_t id;
  };
  bool normalize_nfc = false;
  std::vector<std::string> split_patterns;
  std::vector<Token> vocabulary;
  std::vector<BpeMerge> merges;
  WholeWords whole_words = WholeWords::reached_by_merges;
  std::vector<AddedToken> added_tokens;
};

// Throws Error naming the file, the key, what was found and what is read.
TokenizerFile read_tokenizer_file(const std::filesystem::path& file);

}  // namespace draftsmith
