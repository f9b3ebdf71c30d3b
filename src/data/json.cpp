#include "data/json.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/json_mistake.h"

namespace draftsmith {
namespace {

constexpr std::size_t kMaximumDepth = 64;

// Receives the parser's events and builds a JsonValue. The parser keeps its own stack, so deep nesting costs
// no recursion before it is refused here.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  // Of a text of `size` bytes.
  Builder(const std::string& source, std::size_t size) : source_(source), size_(size) {}

  JsonValue take() { return std::move(root_); }

  bool null() override { return add({JsonNull{}}); }
  bool boolean(bool value) override { return add({value}); }
  bool number_integer(std::int64_t value) override { return add({value}); }
  bool number_unsigned(std::uint64_t value) override {
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      return add({static_cast<double>(value)});
    return add({static_cast<std::int64_t>(value)});
  }
  bool number_float(double value, const std::string&) override { return add({value}); }
  bool string(std::string& value) override { return add({std::move(value)}); }
  bool binary(nlohmann::json::binary_t&) override { return false; }

  bool start_object(std::size_t) override { return open({JsonObject{}}); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open({JsonArray{}}); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    if (!open_.back().keys.insert(name).second)
      throw Error(fmt::format("{}: the key \"{}\" stands twice in one JSON object; expected every key once",
                              source_, name));
    open_.back().next_key = std::move(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception& problem) override {
    throw Error(fmt::format("{}: expected JSON, found a mistake: {}", source_,
                            json_mistake(problem.what(), position, size_)));
  }

 private:
  struct Level {
    JsonValue value;
    std::unordered_set<std::string> keys;
    std::string next_key;
  };

  bool add(JsonValue value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (auto* array = std::get_if<JsonArray>(&open_.back().value.data)) {
      array->push_back(std::move(value));
    } else {
      std::get<JsonObject>(open_.back().value.data)
          .push_back({std::move(open_.back().next_key), std::move(value)});
    }
    return true;
  }

  bool open(JsonValue container) {
    if (open_.size() == kMaximumDepth)
      throw Error(fmt::format("{}: JSON nested deeper than {} levels is refused", source_, kMaximumDepth));
    open_.push_back({.value = std::move(container)});
    return true;
  }

  bool close() {
    JsonValue finished = std::move(open_.back().value);
    open_.pop_back();
    return add(std::move(finished));
  }

  const std::string& source_;
  const std::size_t size_;
  std::vector<Level> open_;
  JsonValue root_;
};

nlohmann::ordered_json to_library(const JsonValue& value) {
  if (const auto* array = value.get<JsonArray>()) {
    auto out = nlohmann::ordered_json::array();
    for (const JsonValue& item : *array) out.push_back(to_library(item));
    return out;
  }
  if (const auto* object = value.get<JsonObject>()) {
    auto out = nlohmann::ordered_json::object();
    // Appended without looking for the key, which stands once: an object may have 100,000 members.
    auto& members = out.get_ref<nlohmann::ordered_json::object_t&>();
    for (const JsonMember& member : *object) members.emplace_back(member.key, to_library(member.value));
    return out;
  }
  if (const auto* boolean = value.get<bool>()) return *boolean;
  if (const auto* integer = value.get<std::int64_t>()) return *integer;
  if (const auto* number = value.get<double>()) return *number;
  if (const auto* text = value.get<std::string>()) return *text;
  return nullptr;
}

}  // namespace

JsonValue parse_json(std::string_view text, const std::string& source) {
  Builder builder(source, text.size());
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

std::string write_json(const JsonValue& value, JsonLayout layout) {
  const bool indented = layout == JsonLayout::indented;
  const nlohmann::ordered_json document = to_library(value);
  const auto replace = nlohmann::ordered_json::error_handler_t::replace;  // of bytes that are not UTF-8
  return document.dump(indented ? 2 : -1, ' ', false, replace) + (indented ? "\n" : "");
}

const JsonValue* find_member(const JsonObject& object, std::string_view key) {
  const auto found =
      std::find_if(object.begin(), object.end(), [&](const JsonMember& member) { return member.key == key; });
  return found == object.end() ? nullptr : &found->value;
}

std::string describe_json(const JsonValue& value) {
  if (const auto* array = value.get<JsonArray>(); array && array->size() > 8)
    return fmt::format("a list of {}", array->size());
  if (const auto* object = value.get<JsonObject>())
    return fmt::format("an object of {} members", object->size());
  std::string text = write_json(value, JsonLayout::compact);
  constexpr std::size_t kLongest = 80;
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "…";
  return text;
}

}  // namespace draftsmith
