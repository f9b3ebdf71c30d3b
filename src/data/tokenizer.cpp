#include "data/tokenizer.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <memory>

#include <utf8proc.h>

#include "base/error.h"
#include "data/byte_level.h"
#include "data/tokenizer_config.h"
#include "data/tokenizer_file.h"
#include "data/utf8.h"

namespace draftsmith {
namespace {

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char byte) { return static_cast<std::uint8_t>(byte) < 0x80; });
}

// Unicode's canonical composition; ASCII is its own.
std::string nfc(std::string_view text) {
  if (is_ascii(text)) return std::string(text);
  utf8proc_uint8_t* composed = nullptr;
  const utf8proc_ssize_t bytes = utf8proc_map(
      reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
      &composed, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(composed, &std::free);
  if (bytes < 0) throw Error(std::string("normalizing text to NFC failed: ") + utf8proc_errmsg(bytes));
  return {reinterpret_cast<const char*>(composed), static_cast<std::size_t>(bytes)};
}

std::vector<BpeToken> bpe_tokens(const TokenizerFile& file) {
  std::vector<BpeToken> tokens;
  tokens.reserve(file.vocabulary.size());
  for (const auto& [text, id] : file.vocabulary) {
    if (auto bytes = bytes_from_byte_level(text)) tokens.push_back({std::move(*bytes), id});
  }
  return tokens;
}

// The text that an added token is found as, and stands for.
std::string added_text(const TokenizerFile& file, const AddedToken& token) {
  return token.normalized && file.normalize_nfc ? nfc(token.content) : token.content;
}

enum class FoundIn { raw_text, normalized_text };

std::vector<AddedToken> added_tokens(const TokenizerFile& file, FoundIn where) {
  std::vector<AddedToken> tokens;
  for (const AddedToken& token : file.added_tokens) {
    if (token.normalized != (where == FoundIn::normalized_text)) continue;
    tokens.push_back(token);
    tokens.back().content = added_text(file, token);
  }
  return tokens;
}

}  // namespace

Tokenizer::Tokenizer(const TokenizerFile& file, const TokenizerConfig& config)
    : normalize_nfc_(file.normalize_nfc),
      pretokenizer_(file.split_patterns),
      bpe_(bpe_tokens(file), file.merges, file.whole_words),
      raw_added_(added_tokens(file, FoundIn::raw_text)),
      normalized_added_(added_tokens(file, FoundIn::normalized_text)) {
  const auto place = [&](std::int32_t id, std::string bytes, Kind kind) {
    const std::size_t rows = std::max(bytes_.size(), static_cast<std::size_t>(id) + 1);
    bytes_.resize(rows);
    kinds_.resize(rows, Kind::none);
    bytes_[id] = std::move(bytes);
    kinds_[id] = kind;
  };
  // A token with a character outside the byte-level alphabet stands for its own text; no merge reaches it.
  for (const auto& [text, id] : file.vocabulary) {
    place(id, bytes_from_byte_level(text).value_or(text), Kind::text);
  }
  for (const AddedToken& token : file.added_tokens) {
    place(token.id, added_text(file, token), token.special ? Kind::special : Kind::text);
    added_ids_.emplace(token.content, token.id);
  }
  mask_token_ = role("mask_token", config.mask_token);
  eos_token_ = role("eos_token", config.eos_token);
  pad_token_ = role("pad_token", config.pad_token);
  bos_token_ = role("bos_token", config.bos_token);
}

Tokenizer Tokenizer::load(const std::filesystem::path& folder_or_file) {
  const bool is_folder = std::filesystem::is_directory(folder_or_file);
  const auto file = is_folder ? folder_or_file / "tokenizer.json" : folder_or_file;
  const TokenizerFile contents = read_tokenizer_file(file);
  const TokenizerConfig config = read_tokenizer_config(file.parent_path());
  try {
    return Tokenizer(contents, config);
  } catch (const Error& failure) {
    throw Error(file.string() + ": " + failure.what());
  }
}

std::optional<std::int32_t> Tokenizer::role(const char* name, const std::optional<std::string>& token) const {
  if (!token) return std::nullopt;
  const auto id = id_of(*token);
  if (!id) {
    throw Error(std::string("has no token \"") + *token + "\", which the files beside it name as \"" + name +
                "\"; add it to added_tokens or correct tokenizer_config.json or special_tokens_map.json");
  }
  return id;
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  if (text.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    throw Error("text of " + std::to_string(text.size()) +
                " bytes is too long to tokenize at once; the limit is 2 GiB");
  }
  const std::size_t valid = valid_utf8_bytes(text);
  if (valid != text.size()) {
    throw Error("text is not UTF-8: the byte at offset " + std::to_string(valid) + " starts no character");
  }
  std::vector<std::int32_t> ids;
  Bpe::Scratch scratch;
  raw_added_.scan(text, [&](std::string_view piece, std::optional<std::int32_t> id) {
    id ? ids.push_back(*id) : encode_text(piece, scratch, ids);
  });
  return ids;
}

void Tokenizer::encode_text(std::string_view text, Bpe::Scratch& scratch,
                            std::vector<std::int32_t>& ids) const {
  const std::string composed = normalize_nfc_ ? nfc(text) : std::string();
  const std::string_view normalized = normalize_nfc_ ? std::string_view(composed) : text;
  normalized_added_.scan(normalized, [&](std::string_view piece, std::optional<std::int32_t> id) {
    id ? ids.push_back(*id) : encode_words(piece, scratch, ids);
  });
}

void Tokenizer::encode_words(std::string_view normalized, Bpe::Scratch& scratch,
                             std::vector<std::int32_t>& ids) const {
  std::vector<std::string_view> words;
  pretokenizer_.split(normalized, words);
  for (const std::string_view word : words) bpe_.encode(word, scratch, ids);
}

Tokenizer::Kind Tokenizer::kind_of(std::int32_t id) const {
  return id < 0 || id >= size() ? Kind::none : kinds_[id];
}

std::string_view Tokenizer::bytes_of(std::int32_t id) const {
  return has_token(id) ? std::string_view(bytes_[id]) : std::string_view();
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, SpecialTokens special) const {
  std::string bytes;
  for (const std::int32_t id : ids) {
    if (special == SpecialTokens::skip && is_special(id)) continue;
    bytes += bytes_of(id);
  }
  std::string text;
  append_replacing_ill_formed(text, bytes);
  return text;
}

std::optional<std::int32_t> Tokenizer::id_of(std::string_view text) const {
  const auto added = added_ids_.find(text);
  if (added != added_ids_.end()) return added->second;
  return bpe_.id_of(text);
}

std::string StreamDecoder::push(std::int32_t id) {
  if (special_ == SpecialTokens::skip && tokenizer_->is_special(id)) return {};
  pending_ += tokenizer_->bytes_of(id);
  const std::size_t whole_bytes = pending_.size() - incomplete_utf8_tail_bytes(pending_);
  std::string text;
  append_replacing_ill_formed(text, std::string_view(pending_).substr(0, whole_bytes));
  pending_.erase(0, whole_bytes);
  return text;
}

std::string StreamDecoder::finish() {
  std::string text;
  append_replacing_ill_formed(text, pending_);
  pending_.clear();
  return text;
}

}  // namespace draftsmith
