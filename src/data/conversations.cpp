#include "data/conversations.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/chat.h"
#include "data/file.h"
#include "data/json_mistake.h"

namespace draftsmith {
namespace {

using Json = nlohmann::json;

// Without the place: a line's own line is the first.
std::string parse_failure(const Json::exception& failure) {
  std::string_view words = failure.what();
  if (const auto begin = words.find("syntax error"); begin != words.npos) words.remove_prefix(begin);
  return json_mistake(words);
}

Json parse_line(const std::string& line) {
  try {
    Json object = Json::parse(line);
    if (object.is_object()) return object;
    throw Error(std::string("expected an object, found ") + object.type_name());
  } catch (const Json::parse_error& failure) {
    throw Error(
        fmt::format("is not JSON at byte {}: {}{}", failure.byte, parse_failure(failure),
                    failure.byte > line.size()
                        ? "; either it is cut there, or the object goes on in the next line, where one "
                          "line is expected (jq -c . writes it so)"
                        : ""));
  } catch (const Json::exception& failure) {
    throw Error("is not JSON: " + parse_failure(failure));
  }
}

// The first line of a list, or of an object of several lines.
void refuse_whole_document(std::string_view line) {
  line.remove_prefix(line.find_first_not_of(" \t\r"));
  const bool list = line.starts_with('[');
  if (!list && line.find_last_not_of(" \t\r{") != line.npos) return;
  throw Error(
      fmt::format("expected JSON lines, an object a line, found the beginning of {}; jq -c {} writes its {}",
                  list ? "a list" : "an object of several lines", list ? "'.[]'" : ".",
                  list ? "entries a line each" : "objects so"));
}

// The one kind key of the line.
std::string kind_of(const Json& line) {
  std::string kind;
  for (const char* key : {"messages", "text", "input_ids"}) {
    if (const auto found = line.find(key); found == line.end() || found->is_null()) continue;
    if (!kind.empty()) {
      throw Error(fmt::format("has both \"{}\" and \"{}\"; a line holds one of them", kind, key));
    }
    kind = key;
  }
  if (!kind.empty()) return kind;
  throw Error(
      "has no \"messages\", a list of {\"role\", \"content\"}; nor \"text\"; nor \"input_ids\" with "
      "\"loss_mask\"");
}

// What an answer says besides its content. Templates differ in how they render it, and content alone is rendered here.
void refuse_calls(const Json& message, const std::string& place) {
  for (const char* key : {"tool_calls", "function_call"}) {
    const auto found = message.find(key);
    if (found == message.end() || found->empty() || *found == "") continue;
    throw Error(fmt::format(
        "{} has a \"{}\"; expected an answer that \"content\" is the whole of. Write the conversation as "
        "the target's template renders it, as \"input_ids\" with \"loss_mask\"",
        place, key));
  }
}

const std::string& text_of(const Json& message, const char* key, const std::string& place) {
  const auto found = message.is_object() ? message.find(key) : message.end();
  if (found == message.end())
    throw Error(place + " has no \"" + key + "\"; expected {\"role\", \"content\"}");
  if (!found->is_string()) {
    throw Error(place + ": \"" + key + "\" must be a text, and is of type " + found->type_name());
  }
  return found->get_ref<const std::string&>();
}

std::vector<Message> messages_of(const Json& conversation) {
  const auto list = conversation.find("messages");
  if (!list->is_array() || list->empty()) {
    throw Error("\"messages\" must be a list of at least one message, and is " +
                (list->is_array() ? std::string("empty") : std::string("of type ") + list->type_name()));
  }
  std::vector<Message> messages;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::string place = "messages[" + std::to_string(i) + "]";
    refuse_calls((*list)[i], place);
    messages.push_back({text_of((*list)[i], "role", place), text_of((*list)[i], "content", place)});
  }
  if (std::none_of(messages.begin(), messages.end(),
                   [](const Message& m) { return m.role == "assistant"; })) {
    throw Error("has no assistant message; there is nothing to learn from it");
  }
  return messages;
}

std::vector<std::int64_t> integers_of(const Json& line, const char* key) {
  const auto list = line.find(key);
  if (list == line.end()) throw Error(fmt::format("has \"input_ids\" but no \"{}\"", key));
  if (!list->is_array()) {
    throw Error(fmt::format("\"{}\" must be a list of integers, and is of type {}", key, list->type_name()));
  }
  std::vector<std::int64_t> values;
  values.reserve(list->size());
  for (const Json& entry : *list) {
    // What an int64 cannot hold is no id either; it must not wrap to one.
    const bool fits =
        entry.is_number_integer() && (!entry.is_number_unsigned() || entry.get<std::uint64_t>() <= INT64_MAX);
    if (!fits) {
      throw Error(
          fmt::format("{}[{}] must be an integer, and is {}", key, values.size(),
                      entry.is_number() ? entry.dump() : std::string("of type ") + entry.type_name()));
    }
    values.push_back(entry.get<std::int64_t>());
  }
  return values;
}

EncodedConversation tokens_of(const Json& line) {
  const auto ids = integers_of(line, "input_ids"), mask = integers_of(line, "loss_mask");
  if (ids.size() != mask.size()) {
    throw Error(fmt::format("has {} input_ids and {} entries of loss_mask; every token needs one", ids.size(),
                            mask.size()));
  }
  EncodedConversation tokens;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (mask[i] != 0 && mask[i] != 1) {
      throw Error(fmt::format("loss_mask[{}] must be 0 or 1, and is {}", i, mask[i]));
    }
    if (ids[i] < 0 || ids[i] > INT32_MAX)
      throw Error(fmt::format("input_ids[{}] is {}, no token", i, ids[i]));
    tokens.ids.push_back(static_cast<std::int32_t>(ids[i]));
    tokens.loss_mask.push_back(static_cast<std::uint8_t>(mask[i]));
  }
  if (!mask.empty() && mask.front() == 1) {
    throw Error("loss_mask[0] is 1, but nothing comes before the first token to predict it from; make it 0");
  }
  return tokens;
}

EncodedConversation text_tokens(const Json& line, const Tokenizer& tokenizer) {
  const Json& text = line["text"];
  if (!text.is_string()) {
    throw Error(std::string("\"text\" must be a text, and is of type ") + text.type_name());
  }
  EncodedConversation tokens{.ids = tokenizer.encode(text.get_ref<const std::string&>())};
  tokens.loss_mask.assign(tokens.ids.size(), 1);
  if (!tokens.loss_mask.empty()) tokens.loss_mask.front() = 0;
  return tokens;
}

// The value of "id" or "domain"; `otherwise` when absent.
std::string label_of(const Json& conversation, const char* key, const std::string& otherwise) {
  const auto found = conversation.find(key);
  if (found == conversation.end() || found->is_null()) return otherwise;
  if (found->is_string()) return found->get<std::string>();
  if (found->is_number_integer()) return found->dump();
  throw Error(std::string("\"") + key + "\" must be a text or an integer, and is of type " +
              found->type_name());
}

// Reads the lines of one file.
class LineReader {
 public:
  explicit LineReader(const ConversationSource& source) : source_(source) {}

  Corpus::Document read(const std::string& text, std::int64_t number, const std::string& place) {
    if (kind_.empty()) refuse_whole_document(text);
    const Json line = parse_line(text);
    const std::string kind = kind_of(line);
    if (kind_.empty()) {
      kind_ = kind;
      kind_line_ = number;
    }
    if (kind != kind_) {
      throw Error(
          fmt::format("has \"{}\", and line {} has \"{}\"; a file holds lines of one kind, so split it", kind,
                      kind_line_, kind_));
    }
    EncodedConversation tokens = kind == "messages"    ? conversation_tokens(line)
                                 : kind == "input_ids" ? tokens_of(line)
                                                       : text_tokens(line, source_.tokenizer);
    check_ids(tokens.ids);
    return {.ids = std::move(tokens.ids),
            .loss_mask = std::move(tokens.loss_mask),
            .id = label_of(line, "id", place),
            .domain = label_of(line, "domain", ""),
            .line = number};
  }

 private:
  EncodedConversation conversation_tokens(const Json& line) {
    const std::vector<Message> messages = messages_of(line);
    if (!chat_) chat_ = ChatTemplate::load(source_.target);
    return chat_->encode(source_.tokenizer, messages);
  }

  void check_ids(const std::vector<std::int32_t>& ids) const {
    const auto outside =
        std::find_if(ids.begin(), ids.end(), [&](std::int32_t id) { return id >= source_.table_rows; });
    if (outside == ids.end()) return;
    throw Error(
        fmt::format("token {} has id {}, and the target's table has {} rows; was it made by another "
                    "tokenizer?",
                    outside - ids.begin(), *outside, source_.table_rows));
  }

  const ConversationSource& source_;
  std::optional<ChatTemplate> chat_;
  std::string kind_;  // of the first line
  std::int64_t kind_line_ = 0;
};

[[noreturn]] void refuse_empty(const std::filesystem::path& file, std::int64_t lines) {
  const std::string found = lines == 0   ? "an empty file"
                            : lines == 1 ? "one line, which is blank"
                                         : fmt::format("{} lines, all of them blank", lines);
  throw Error(
      fmt::format("{}:1: expected lines of JSON with \"messages\", \"text\", or \"input_ids\" and "
                  "\"loss_mask\", found {}",
                  file.string(), found));
}

}  // namespace

Corpus read_conversations(const ConversationSource& source) {
  std::ifstream stream =
      open_stream(source.file, "this file of JSON lines with \"messages\", \"text\" or \"input_ids\"");
  Corpus corpus;
  LineReader reader(source);
  std::string line;
  std::int64_t number = 1;
  for (; std::getline(stream, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string place = source.file.string() + ":" + std::to_string(number);
    try {
      corpus.append(reader.read(line, number, place), source.max_tokens);
    } catch (const Error& failure) {
      throw Error(place + ": " + failure.what());
    }
  }
  if (stream.bad()) throw Error(source.file.string() + ": reading failed");
  if (corpus.counts().read == 0) refuse_empty(source.file, number - 1);
  corpus.require_usable(source.file.string());
  return corpus;
}

}  // namespace draftsmith
