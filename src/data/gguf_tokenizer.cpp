#include "data/gguf_tokenizer.h"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/nearest.h"
#include "data/json.h"

namespace draftsmith {
namespace {

constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
constexpr std::string_view kTokenTypes = "tokenizer.ggml.token_type";
constexpr std::string_view kMerges = "tokenizer.ggml.merges";
constexpr std::string_view kKind = "tokenizer.ggml.pre";
constexpr std::string_view kAdvice = "convert the model again, or take its Hugging Face folder";

constexpr const char* kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// How a kind of tokenizer cuts text into words, and what else its tokenizer.json says.
struct Kind {
  std::string_view name;
  const char* pattern = nullptr;  // of a Split; else GPT-2's, built into ByteLevel
  bool single_digits = false;
  bool normalize_nfc = false;
  bool ignore_merges = false;
  bool add_bos = false;  // unless the file says otherwise
};

// Complete: another kind is another row.
constexpr std::array kKinds{
    Kind{.name = "smollm", .single_digits = true},
    Kind{.name = "gpt-2"},
    Kind{.name = "gpt2"},
    Kind{.name = "llama-bpe", .pattern = kLlama3Pattern, .ignore_merges = true, .add_bos = true},
    Kind{.name = "llama3", .pattern = kLlama3Pattern, .ignore_merges = true, .add_bos = true},
    Kind{.name = "qwen2", .pattern = kQwen2Pattern, .normalize_nfc = true},
};

const Kind& read_kind(const GgufMetadata& metadata) {
  if (metadata.text("tokenizer.ggml.model") != "gpt2")
    metadata.refuse("tokenizer.ggml.model", "\"gpt2\", which is byte-level BPE",
                    "other tokenizers are not imported");
  const std::string name = metadata.text(kKind);
  std::vector<std::string> names;
  for (const Kind& kind : kKinds) {
    if (kind.name == name) return kind;
    names.emplace_back(kind.name);
  }
  metadata.refuse(kKind, "one of " + join(names, ", "), "how others cut text is not known here");
}

// The format's own numbers.
enum class TokenType : std::int64_t { normal = 1, unknown, control, user_defined, unused, byte };

struct Token {
  std::string_view text;
  TokenType type;

  bool is_added() const { return type != TokenType::normal; }
  bool is_special() const { return type == TokenType::control || type == TokenType::unknown; }
};

// By id; ids of unused tokens are empty.
using Tokens = std::vector<std::optional<Token>>;

Tokens read_tokens(const GgufMetadata& metadata, std::int64_t vocabulary_rows) {
  const std::vector<std::string_view> texts = metadata.texts(kTokens);
  if (texts.empty() || static_cast<std::int64_t>(texts.size()) > vocabulary_rows)
    metadata.refuse(kTokens, fmt::format("1 to {} tokens, the rows of the embedding table", vocabulary_rows),
                    kAdvice);
  const auto types = metadata.find_integers(kTokenTypes, {.least = 1, .most = 6});
  if (types && types->size() != texts.size())
    metadata.refuse(kTokenTypes, fmt::format("one type for each of {} tokens", texts.size()), kAdvice);
  Tokens tokens(texts.size());
  std::unordered_map<std::string_view, std::size_t> seen;
  for (std::size_t id = 0; id < texts.size(); ++id) {
    const Token token{texts[id], types ? static_cast<TokenType>((*types)[id]) : TokenType::normal};
    if (token.type == TokenType::unused) continue;
    if (token.type == TokenType::byte)
      metadata.refuse(kTokenTypes, "no type 6 (a byte), which byte-level BPE has not", kAdvice);
    const auto [earlier, is_new] = seen.emplace(token.text, id);
    if (token.text.empty() || !is_new)
      metadata.refuse(kTokens,
                      token.text.empty() ? fmt::format("a text for token {}", id)
                                         : fmt::format("every token once, and \"{}\" is both {} and {}",
                                                       token.text, earlier->second, id),
                      kAdvice);
    tokens[id] = token;
  }
  return tokens;
}

JsonValue text_value(std::string_view text) { return {std::string(text)}; }

JsonObject typed(std::string_view type) { return {{"type", text_value(type)}}; }

JsonValue vocabulary(const Tokens& tokens) {
  JsonObject ids;
  for (std::size_t id = 0; id < tokens.size(); ++id)
    if (tokens[id]) ids.push_back({std::string(tokens[id]->text), {static_cast<std::int64_t>(id)}});
  return {std::move(ids)};
}

JsonValue added_tokens(const Tokens& tokens) {
  JsonArray added;
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (!tokens[id] || !tokens[id]->is_added()) continue;
    added.push_back({JsonObject{{"id", {static_cast<std::int64_t>(id)}},
                                {"content", text_value(tokens[id]->text)},
                                {"single_word", {false}},
                                {"lstrip", {false}},
                                {"rstrip", {false}},
                                {"normalized", {false}},
                                {"special", {tokens[id]->is_special()}}}});
  }
  return {std::move(added)};
}

// "a b" in the file; tokens are written in the byte-level alphabet, which has no space.
JsonValue merges(const GgufMetadata& metadata) {
  JsonArray pairs;
  for (const std::string_view both : metadata.texts(kMerges)) {
    const std::size_t space = both.find(' ');
    if (space == 0 || space == std::string_view::npos || space + 1 == both.size())
      metadata.refuse(
          kMerges,
          fmt::format("two tokens with a space between them, and merge {} is \"{}\"", pairs.size(), both),
          kAdvice);
    pairs.push_back({JsonArray{text_value(both.substr(0, space)), text_value(both.substr(space + 1))}});
  }
  return {std::move(pairs)};
}

JsonValue pre_tokenizer(const Kind& kind) {
  JsonArray parts;
  if (kind.single_digits) {
    JsonObject digits = typed("Digits");
    digits.push_back({"individual_digits", {true}});
    parts.push_back({std::move(digits)});
  }
  if (kind.pattern) {
    JsonObject split = typed("Split");
    split.push_back({"pattern", {JsonObject{{"Regex", text_value(kind.pattern)}}}});
    split.push_back({"behavior", text_value("Isolated")});
    split.push_back({"invert", {false}});
    parts.push_back({std::move(split)});
  }
  JsonObject byte_level = typed("ByteLevel");
  byte_level.push_back({"add_prefix_space", {false}});
  byte_level.push_back({"trim_offsets", {true}});
  byte_level.push_back({"use_regex", {kind.pattern == nullptr}});
  parts.push_back({std::move(byte_level)});
  if (parts.size() == 1) return parts[0];
  JsonObject sequence = typed("Sequence");
  sequence.push_back({"pretokenizers", {std::move(parts)}});
  return {std::move(sequence)};
}

// The token of an id that the file names, if it names one.
std::optional<std::string_view> role(const GgufMetadata& metadata, std::string_view key,
                                     const Tokens& tokens) {
  const auto last = static_cast<std::int64_t>(tokens.size()) - 1;
  const auto id = metadata.find_integer(key, {.least = 0, .most = last});
  if (!id) return std::nullopt;
  const auto& token = tokens[static_cast<std::size_t>(*id)];
  if (!token) metadata.refuse(key, "a token that is in use", kAdvice);
  return token->text;
}

// Puts the bos token before a text, and one before each text of a pair.
JsonValue bos_template(std::string_view bos, std::int64_t bos_id) {
  const auto special = [&](std::int64_t type) -> JsonValue {
    return {JsonObject{{"SpecialToken", {JsonObject{{"id", text_value(bos)}, {"type_id", {type}}}}}}};
  };
  const auto sequence = [](std::string_view name, std::int64_t type) -> JsonValue {
    return {JsonObject{{"Sequence", {JsonObject{{"id", text_value(name)}, {"type_id", {type}}}}}}};
  };
  JsonObject token{
      {"id", text_value(bos)}, {"ids", {JsonArray{{bos_id}}}}, {"tokens", {JsonArray{text_value(bos)}}}};
  JsonObject result = typed("TemplateProcessing");
  result.push_back({"single", {JsonArray{special(0), sequence("A", 0)}}});
  result.push_back({"pair", {JsonArray{special(0), sequence("A", 0), special(1), sequence("B", 1)}}});
  result.push_back({"special_tokens", {JsonObject{{std::string(bos), {std::move(token)}}}}});
  return {std::move(result)};
}

JsonValue byte_level_decoder() {
  JsonObject decoder = typed("ByteLevel");
  for (const char* option : {"add_prefix_space", "trim_offsets", "use_regex"})
    decoder.push_back({option, {true}});
  return {std::move(decoder)};
}

std::string write_tokenizer(const GgufMetadata& metadata, const Kind& kind, const Tokens& tokens) {
  constexpr std::string_view kBos = "tokenizer.ggml.bos_token_id";
  const auto bos = role(metadata, kBos, tokens);
  const bool adds_bos = metadata.find_boolean("tokenizer.ggml.add_bos_token").value_or(kind.add_bos) && bos;
  JsonObject model = typed("BPE");
  for (const char* option : {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"})
    model.push_back({option, {JsonNull{}}});
  model.push_back({"fuse_unk", {false}});
  model.push_back({"byte_fallback", {false}});
  model.push_back({"ignore_merges", {kind.ignore_merges}});
  model.push_back({"vocab", vocabulary(tokens)});
  model.push_back({"merges", merges(metadata)});
  JsonObject out{{"version", text_value("1.0")}, {"truncation", {JsonNull{}}}, {"padding", {JsonNull{}}}};
  out.push_back({"added_tokens", added_tokens(tokens)});
  out.push_back({"normalizer", kind.normalize_nfc ? JsonValue{typed("NFC")} : JsonValue{}});
  out.push_back({"pre_tokenizer", pre_tokenizer(kind)});
  out.push_back(
      {"post_processor", adds_bos ? bos_template(*bos, *metadata.find_integer(kBos, {})) : JsonValue{}});
  out.push_back({"decoder", byte_level_decoder()});
  out.push_back({"model", {std::move(model)}});
  return write_json({std::move(out)}, JsonLayout::compact);
}

std::string write_tokenizer_config(const GgufMetadata& metadata, const Tokens& tokens) {
  struct Role {
    const char* key;
    const char* name;
  };
  constexpr std::array kRoles{Role{"tokenizer.ggml.bos_token_id", "bos_token"},
                              Role{"tokenizer.ggml.eos_token_id", "eos_token"},
                              Role{"tokenizer.ggml.padding_token_id", "pad_token"},
                              Role{"tokenizer.ggml.unknown_token_id", "unk_token"},
                              Role{"tokenizer.ggml.mask_token_id", "mask_token"}};
  JsonObject out;
  for (const Role& each : kRoles) {
    const auto token = role(metadata, each.key, tokens);
    if (token) out.push_back({each.name, text_value(*token)});
  }
  if (const auto chat_template = metadata.find_text("tokenizer.chat_template"))
    out.push_back({"chat_template", text_value(*chat_template)});
  out.push_back({"clean_up_tokenization_spaces", {false}});
  out.push_back({"tokenizer_class", text_value("PreTrainedTokenizerFast")});
  return write_json({std::move(out)}, JsonLayout::indented);
}

}  // namespace

GgufTokenizerFiles read_gguf_tokenizer(const GgufMetadata& metadata, std::int64_t vocabulary_rows) {
  const Kind& kind = read_kind(metadata);
  const Tokens tokens = read_tokens(metadata, vocabulary_rows);
  return {.tokenizer = write_tokenizer(metadata, kind, tokens),
          .tokenizer_config = write_tokenizer_config(metadata, tokens),
          .has_chat_template = metadata.has("tokenizer.chat_template"),
          .tokens = static_cast<std::int64_t>(tokens.size())};
}

}  // namespace draftsmith
