#include "data/tokenizer_config.h"

#include <fstream>
#include <iterator>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/file.h"
#include "data/json_mistake.h"

namespace draftsmith {
namespace {

using Json = nlohmann::json;

std::optional<std::string> read_text(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return std::nullopt;
  std::ifstream stream = open_stream(file, "this file of a Hugging Face folder");
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

// An empty object when the file does not exist.
Json read_object(const std::filesystem::path& file) {
  const std::optional<std::string> text = read_text(file);
  if (!text) return Json::object();
  try {
    Json document = Json::parse(*text);
    if (document.is_object()) return document;
  } catch (const Json::parse_error& failure) {
    throw Error(file.string() + ": is not JSON: " + json_mistake(failure.what(), failure.byte, text->size()));
  } catch (const Json::exception& failure) {
    throw Error(file.string() + ": is not JSON: " + json_mistake(failure.what()));
  }
  throw Error(file.string() + ": an object is expected");
}

void read_token(const Json& object, const std::filesystem::path& file, const char* key,
                std::optional<std::string>& token) {
  const auto found = object.find(key);
  if (token || found == object.end() || found->is_null()) return;
  const Json* text = &*found;
  if (text->is_object() && text->contains("content")) text = &text->at("content");
  if (!text->is_string()) {
    throw Error(file.string() + ": \"" + key + "\" is of type " + text->type_name() +
                "; expected a text, {\"content\": a text} or null");
  }
  token = text->get<std::string>();
}

void read_tokens(const std::filesystem::path& file, const Json& object, TokenizerConfig& config) {
  read_token(object, file, "mask_token", config.mask_token);
  read_token(object, file, "eos_token", config.eos_token);
  read_token(object, file, "pad_token", config.pad_token);
  read_token(object, file, "bos_token", config.bos_token);
}

// A text, or a list of {"name", "template"}.
std::optional<std::string> template_in(const std::filesystem::path& file, const Json& object) {
  const auto found = object.find("chat_template");
  if (found == object.end() || found->is_null()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  if (found->is_array()) {
    for (const Json& entry : *found) {
      if (!entry.is_object() || !entry.contains("name") || !entry.contains("template")) continue;
      if (entry["name"] == "default" && entry["template"].is_string()) {
        return entry["template"].get<std::string>();
      }
    }
  }
  throw Error(file.string() +
              ": \"chat_template\" is neither a text nor a list of {\"name\", \"template\"} with one named "
              "\"default\"");
}

}  // namespace

TokenizerConfig read_tokenizer_config(const std::filesystem::path& folder) {
  TokenizerConfig config;
  const auto config_file = folder / "tokenizer_config.json";
  const auto map_file = folder / "special_tokens_map.json";
  const Json object = read_object(config_file);
  read_tokens(config_file, object, config);
  read_tokens(map_file, read_object(map_file), config);
  const auto template_file = folder / "chat_template.jinja";
  config.chat_template = read_text(template_file);
  config.chat_template_place = template_file.string();
  if (!config.chat_template) {
    config.chat_template = template_in(config_file, object);
    config.chat_template_place = config_file.string() + ", \"chat_template\"";
  }
  return config;
}

}  // namespace draftsmith
