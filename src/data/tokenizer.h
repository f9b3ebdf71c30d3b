// Text to token ids and back, for the byte-level BPE of a Hugging Face folder; tokenizer_file.h says what of
// it is read.
//
// Encoding: added tokens are cut out of the raw text, the rest is normalized (NFC, if the file says so), cut
// into words and merged. Added tokens, special ones too, are recognised wherever they stand, also inside chat
// content: that is what apply_chat_template does.
//
// Constant after loading: const members may be called from any thread. Only load() blocks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/added_tokens.h"
#include "data/bpe.h"
#include "data/pretokenizer.h"

namespace draftsmith {

struct TokenizerFile;
struct TokenizerConfig;

enum class SpecialTokens { keep, skip };

class Tokenizer {
 public:
  // A Hugging Face folder, or its tokenizer.json; token roles come from the files beside it
  // (tokenizer_config.h). Throws Error naming file, key, what was found and what is read.
  static Tokenizer load(const std::filesystem::path& folder_or_file);

  // Throws Error when the text is not UTF-8, naming the byte, or is 2 GiB or longer. Bytes that a vocabulary
  // lacks (bpe.h says which it may) are dropped.
  std::vector<std::int32_t> encode(std::string_view text) const;

  // Always well-formed UTF-8: bytes that form no character become U+FFFD. Ids without a token, such as the
  // padding rows of a table, give nothing.
  std::string decode(std::span<const std::int32_t> ids, SpecialTokens special = SpecialTokens::keep) const;

  // The bytes of one token, perhaps a part of a character; empty for an id without a token.
  std::string_view bytes_of(std::int32_t id) const;

  // The token that stands for exactly this text, an added one first: "<|im_end|>", " the".
  std::optional<std::int32_t> id_of(std::string_view text) const;

  std::int32_t size() const { return static_cast<std::int32_t>(bytes_.size()); }  // greatest id + 1
  bool has_token(std::int32_t id) const { return kind_of(id) != Kind::none; }
  bool is_special(std::int32_t id) const { return kind_of(id) == Kind::special; }

  std::optional<std::int32_t> mask_token() const { return mask_token_; }
  std::optional<std::int32_t> eos_token() const { return eos_token_; }
  std::optional<std::int32_t> pad_token() const { return pad_token_; }
  std::optional<std::int32_t> bos_token() const { return bos_token_; }

 private:
  enum class Kind : std::uint8_t { none, text, special };

  Tokenizer(const TokenizerFile& file, const TokenizerConfig& config);

  Kind kind_of(std::int32_t id) const;
  void encode_text(std::string_view text, Bpe::Scratch& scratch, std::vector<std::int32_t>& ids) const;
  void encode_words(std::string_view normalized, Bpe::Scratch& scratch, std::vector<std::int32_t>& ids) const;
  std::optional<std::int32_t> role(const char* name, const std::optional<std::string>& token) const;

  bool normalize_nfc_;
  Pretokenizer pretokenizer_;
  Bpe bpe_;
  AddedTokenScanner raw_added_;
  AddedTokenScanner normalized_added_;
  std::map<std::string, std::int32_t, std::less<>> added_ids_;
  std::vector<std::string> bytes_;  // by id
  std::vector<Kind> kinds_;         // by id
  std::optional<std::int32_t> mask_token_;
  std::optional<std::int32_t> eos_token_;
  std::optional<std::int32_t> pad_token_;
  std::optional<std::int32_t> bos_token_;
};

// Decodes a stream token by token for a terminal: a character appears when its last byte has come.
// Owned by one thread; the tokenizer must outlive it.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, SpecialTokens special = SpecialTokens::keep)
      : tokenizer_(&tokenizer), special_(special) {}

  // Text that became complete with this token; perhaps empty.
  std::string push(std::int32_t id);
  // What is left at the end of the stream: U+FFFD for a character that never became whole, or nothing.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  SpecialTokens special_;
  std::string pending_;
};

}  // namespace draftsmith
