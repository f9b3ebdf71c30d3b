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

// Writes straight from our values: the library's document takes memory when it goes, and ends the process where there is
// none.
class Writer {
 public:
  explicit Writer(JsonLayout layout) : indented_(layout == JsonLayout::indented) {}

  std::string take() { return std::move(text_); }

  void write(const JsonValue& value) {
    if (const auto* array = value.get<JsonArray>()) {
      write_items('[', *array, ']', [this](const JsonValue& item) { write(item); });
    } else if (const auto* object = value.get<JsonObject>()) {
      write_items('{', *object, '}', [this](const JsonMember& member) {
        write_scalar(member.key);
        text_ += indented_ ? ": " : ":";
        write(member.value);
      });
    } else if (const auto* boolean = value.get<bool>()) {
      write_scalar(*boolean);
    } else if (const auto* integer = value.get<std::int64_t>()) {
      write_scalar(*integer);
    } else if (const auto* number = value.get<double>()) {
      write_scalar(*number);
    } else if (const auto* text = value.get<std::string>()) {
      write_scalar(*text);
    } else {
      write_scalar(nullptr);
    }
  }

 private:
  template <typename Items, typename WriteItem>
  void write_items(char opening, const Items& items, char closing, WriteItem write_item) {
    text_ += opening;
    ++depth_;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) text_ += ',';
      break_line();
      write_item(items[i]);
    }
    --depth_;
    if (!items.empty()) break_line();
    text_ += closing;
  }

  void write_scalar(const nlohmann::json& scalar) {
    const auto replace = nlohmann::json::error_handler_t::replace;  // of bytes that are not UTF-8
    text_ += scalar.dump(-1, ' ', false, replace);
  }

  void break_line() {
    if (indented_) text_ += '\n' + std::string(2 * depth_, ' ');
  }

  const bool indented_;
  std::size_t depth_ = 0;
  std::string text_;
};

}  // namespace

JsonValue parse_json(std::string_view text, const std::string& source) {
  Builder builder(source, text.size());
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

std::string write_json(const JsonValue& value, JsonLayout layout) {
  Writer writer(layout);
  writer.write(value);
  return writer.take() + (layout == JsonLayout::indented ? "\n" : "");
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
