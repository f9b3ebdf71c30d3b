#include "data/conversations.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace draftsmith {
namespace {

using Json = nlohmann::json;

Json parse_line(const std::string& line) {
  try {
    Json object = Json::parse(line);
    if (object.is_object()) return object;
    throw Error(std::string("expected an object, found ") + object.type_name());
  } catch (const Json::exception& failure) {
    throw Error(std::string("is not JSON: ") + failure.what());
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
  if (list == conversation.end())
    throw Error("has no \"messages\"; expected a list of {\"role\", \"content\"}");
  if (!list->is_array() || list->empty()) {
    throw Error("\"messages\" must be a list of at least one message, and is " +
                (list->is_array() ? std::string("empty") : std::string("of type ") + list->type_name()));
  }
  std::vector<Message> messages;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const std::string place = "messages[" + std::to_string(i) + "]";
    messages.push_back({text_of((*list)[i], "role", place), text_of((*list)[i], "content", place)});
  }
  if (std::none_of(messages.begin(), messages.end(),
                   [](const Message& m) { return m.role == "assistant"; })) {
    throw Error("has no assistant message; there is nothing to learn from it");
  }
  return messages;
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

}  // namespace

Corpus read_conversations(const ConversationSource& source) {
  std::ifstream stream(source.file, std::ios::binary);
  if (!stream) {
    throw Error(source.file.string() +
                ": cannot be opened; a file of JSON lines with \"messages\" is expected");
  }
  Corpus corpus;
  std::string line;
  for (std::int64_t number = 1; std::getline(stream, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string place = source.file.string() + ":" + std::to_string(number);
    try {
      const Json conversation = parse_line(line);
      EncodedConversation encoded = source.chat.encode(source.tokenizer, messages_of(conversation));
      corpus.append({.ids = std::move(encoded.ids),
                     .loss_mask = std::move(encoded.loss_mask),
                     .id = label_of(conversation, "id", place),
                     .domain = label_of(conversation, "domain", "")},
                    source.max_tokens);
    } catch (const Error& failure) {
      throw Error(place + ": " + failure.what());
    }
  }
  if (stream.bad()) throw Error(source.file.string() + ": reading failed");
  corpus.require_usable(source.file.string());
  return corpus;
}

}  // namespace draftsmith
