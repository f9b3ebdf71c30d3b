#include "data/tokenizer_file.h"

#include <fstream>
#include <map>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/file.h"
#include "data/json_mistake.h"

namespace draftsmith {
namespace {

using Json = nlohmann::json;

// A table of more rows than this is no language model's; it bounds what a malformed id can make us allocate.
constexpr std::int64_t kMostIds = std::int64_t{1} << 24;

constexpr int kMostNesting = 32;

// What GPT-2's pre-tokenizer does when ByteLevel is asked to use its own pattern.
constexpr const char* kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

std::string shown(const Json& value) {
  constexpr std::size_t kMostBytes = 120;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kMostBytes) text = text.substr(0, kMostBytes) + "…";
  return text;
}

// One value with the path that leads to it, for messages.
struct Node {
  const Json& value;
  const std::string& file;
  std::string key;

  [[noreturn]] void refuse(const std::string& supported) const {
    throw Error(file + ": \"" + key + "\" is " + shown(value) + "; supported: " + supported);
  }

  // Null when the key is absent.
  Node at(const char* name) const {
    static const Json kNull;
    if (!value.is_object()) refuse("an object");
    const auto found = value.find(name);
    return {found == value.end() ? kNull : *found, file, key.empty() ? name : key + "." + name};
  }

  Node element(std::size_t index) const {
    return {value[index], file, key + "[" + std::to_string(index) + "]"};
  }

  const std::string& string(const char* supported) const {
    if (!value.is_string()) refuse(supported);
    return value.get_ref<const std::string&>();
  }

  bool flag(bool otherwise) const {
    if (value.is_null()) return otherwise;
    if (!value.is_boolean()) refuse("true or false");
    return value.get<bool>();
  }

  void must_be_off() const {
    if (flag(false)) refuse("false");
  }

  const Json::array_t& array() const {
    if (!value.is_array()) refuse("a list");
    return value.get_ref<const Json::array_t&>();
  }

  std::int32_t id() const {
    if (!value.is_number_integer() || value.get<std::int64_t>() < 0 ||
        value.get<std::int64_t>() >= kMostIds) {
      refuse("a token id from 0 to " + std::to_string(kMostIds - 1));
    }
    return static_cast<std::int32_t>(value.get<std::int64_t>());
  }
};

void read_normalizer(const Node& normalizer, TokenizerFile& result) {
  if (normalizer.value.is_null()) return;
  const Node type = normalizer.at("type");
  if (type.value != "NFC") type.refuse("no normalizer, or one of type \"NFC\"");
  result.normalize_nfc = true;
}

void read_byte_level(const Node& byte_level, TokenizerFile& result) {
  // Absent means true for both, as the format's own reader has it.
  const Node prefix = byte_level.at("add_prefix_space");
  if (prefix.flag(true)) prefix.refuse("false, written out");
  if (byte_level.at("use_regex").flag(true)) result.split_patterns.emplace_back(kByteLevelPattern);
}

void read_split(const Node& split, TokenizerFile& result) {
  const Node regex = split.at("pattern").at("Regex");
  const Node behavior = split.at("behavior");
  if (behavior.value != "Isolated") behavior.refuse("\"Isolated\"");
  split.at("invert").must_be_off();
  result.split_patterns.push_back(regex.string("a regular expression: {\"Regex\": \"…\"}"));
}

void read_digits(const Node& digits, TokenizerFile& result) {
  result.split_patterns.emplace_back(digits.at("individual_digits").flag(false) ? R"(\p{N})" : R"(\p{N}+)");
}

void read_pretokenizer(const Node& pretokenizer, TokenizerFile& result) {
  constexpr const char* kSupported =
      "\"ByteLevel\", or \"Sequence\" of \"Split\" and \"Digits\" that ends with \"ByteLevel\"";
  const Node type = pretokenizer.value.is_null() ? pretokenizer : pretokenizer.at("type");
  if (type.value == "ByteLevel") return read_byte_level(pretokenizer, result);
  if (type.value != "Sequence") type.refuse(kSupported);
  const Node list = pretokenizer.at("pretokenizers");
  const std::size_t count = list.array().size();
  if (count == 0) list.refuse(kSupported);
  for (std::size_t i = 0; i < count; ++i) {
    const Node part = list.element(i);
    const Node part_type = part.at("type");
    const bool is_last = i + 1 == count;
    if (is_last && part_type.value == "ByteLevel") {
      read_byte_level(part, result);
    } else if (!is_last && part_type.value == "Split") {
      read_split(part, result);
    } else if (!is_last && part_type.value == "Digits") {
      read_digits(part, result);
    } else {
      part_type.refuse(kSupported);
    }
  }
}

void check_post_processor(const Node& node) {
  if (node.value.is_null()) return;
  const Node type = node.at("type");
  if (type.value == "Sequence") {
    const Node list = node.at("processors");
    for (std::size_t i = 0; i < list.array().size(); ++i) check_post_processor(list.element(i));
  } else if (type.value != "ByteLevel" && type.value != "TemplateProcessing") {
    type.refuse("null, \"ByteLevel\", \"TemplateProcessing\" or a \"Sequence\" of these");
  }
}

void check_decoder(const Node& decoder) {
  if (decoder.value.is_null()) decoder.refuse("\"ByteLevel\"");
  const Node type = decoder.at("type");
  if (type.value != "ByteLevel") type.refuse("\"ByteLevel\"");
}

void check_model_options(const Node& model) {
  const Node type = model.at("type");
  if (type.value != "BPE") type.refuse("\"BPE\"");
  const Node dropout = model.at("dropout");
  if (!dropout.value.is_null() && dropout.value != 0.0) dropout.refuse("null");
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const Node affix = model.at(name);
    if (!affix.value.is_null() && affix.value != "") affix.refuse("null or \"\"");
  }
  model.at("byte_fallback").must_be_off();
}

using IdByText = std::unordered_map<std::string_view, std::int32_t>;

// The keys point into the JSON document, which outlives the map.
IdByText read_vocabulary(const Node& vocab, TokenizerFile& result) {
  if (!vocab.value.is_object() || vocab.value.empty()) vocab.refuse("an object of tokens and their ids");
  IdByText ids;
  std::unordered_set<std::int32_t> taken;
  for (const auto& [text, value] : vocab.value.get_ref<const Json::object_t&>()) {
    const Node entry{value, vocab.file, vocab.key + "." + text};
    const std::int32_t id = entry.id();
    if (!taken.insert(id).second) entry.refuse("an id that no other token has");
    ids.emplace(text, id);
    result.vocabulary.push_back({text, id});
  }
  return ids;
}

void read_merges(const Node& merges, const IdByText& ids, TokenizerFile& result) {
  const std::size_t count = merges.array().size();
  result.merges.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const Json& value = merges.value[i];
    std::string left, right;
    if (value.is_string()) {
      const std::string& both = value.get_ref<const std::string&>();
      const std::size_t space = both.find(' ');
      left = both.substr(0, space);
      if (space != std::string::npos) right = both.substr(space + 1);
    } else if (value.is_array() && value.size() == 2 && value[0].is_string() && value[1].is_string()) {
      left = value[0].get<std::string>();
      right = value[1].get<std::string>();
    }
    if (left.empty() || right.empty()) merges.element(i).refuse("two tokens, as \"a b\" or [\"a\", \"b\"]");
    const auto id_of = [&](const std::string& text) {
      const auto found = ids.find(text);
      if (found == ids.end()) {
        merges.element(i).refuse("merges of tokens in model.vocab into one; \"" + text + "\" is not there");
      }
      return found->second;
    };
    result.merges.push_back({id_of(left), id_of(right), id_of(left + right)});
  }
}

void read_added_tokens(const Node& added, const IdByText& ids, TokenizerFile& result) {
  if (added.value.is_null()) return;
  std::map<std::int32_t, std::string> taken;
  for (const auto& [text, id] : ids) taken.emplace(id, text);
  std::unordered_set<std::string> contents;
  for (std::size_t i = 0; i < added.array().size(); ++i) {
    const Node token = added.element(i);
    const Node content = token.at("content");
    const Node id = token.at("id");
    if (content.string("a text").empty()) content.refuse("a text of at least one character");
    for (const char* name : {"single_word", "lstrip", "rstrip"}) token.at(name).must_be_off();
    AddedToken read{content.value.get<std::string>(), id.id(), token.at("special").flag(false),
                    token.at("normalized").flag(true)};
    if (!contents.insert(read.content).second) content.refuse("a text that no other added token has");
    const auto in_vocabulary = ids.find(read.content);
    if (in_vocabulary != ids.end() && in_vocabulary->second != read.id) {
      id.refuse("the id that model.vocab gives this text, " + std::to_string(in_vocabulary->second));
    }
    const auto [holder, is_free] = taken.emplace(read.id, read.content);
    if (!is_free && holder->second != read.content) id.refuse("an id that no other token has");
    result.added_tokens.push_back(std::move(read));
  }
}

Json parse(const std::filesystem::path& file) {
  std::ifstream stream = open_stream(file, "this tokenizer.json of a Hugging Face folder");
  const auto bound_nesting = [&](int depth, Json::parse_event_t, Json&) {
    if (depth <= kMostNesting) return true;
    throw Error(file.string() + ": is nested deeper than " + std::to_string(kMostNesting) +
                " levels; a tokenizer.json is not");
  };
  try {
    Json document = Json::parse(stream, bound_nesting);
    if (document.is_object()) return document;
    throw Error(file.string() + ": holds " + shown(document) + "; an object is expected");
  } catch (const Json::parse_error& failure) {
    const std::string mistake = json_mistake(failure.what(), failure.byte, std::filesystem::file_size(file));
    throw Error(file.string() + ": is not JSON: " + mistake);
  } catch (const Json::exception& failure) {
    throw Error(file.string() + ": is not JSON: " + json_mistake(failure.what()));
  }
}

}  // namespace

TokenizerFile read_tokenizer_file(const std::filesystem::path& file) {
  const std::string name = file.string();
  const Json document = parse(file);
  const Node root{document, name, ""};
  TokenizerFile result;
  const Node model = root.at("model");
  check_model_options(model);
  read_normalizer(root.at("normalizer"), result);
  read_pretokenizer(root.at("pre_tokenizer"), result);
  check_post_processor(root.at("post_processor"));
  check_decoder(root.at("decoder"));
  if (model.at("ignore_merges").flag(false)) result.whole_words = WholeWords::all;
  const IdByText ids = read_vocabulary(model.at("vocab"), result);
  read_merges(model.at("merges"), ids, result);
  read_added_tokens(root.at("added_tokens"), ids, result);
  return result;
}

}  // namespace draftsmith
