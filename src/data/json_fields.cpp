#include "data/json_fields.h"

#include <fmt/format.h>

#include "base/error.h"

namespace draftsmith {
namespace {

constexpr std::string_view kAdvice = "correct it, or take the file again from where the model came";

std::string describe_range(IntegerRange range) {
  if (range.most == std::numeric_limits<std::int64_t>::max()) return fmt::format("from {}", range.least);
  return fmt::format("from {} to {}", range.least, range.most);
}

std::string describe_range(NumberRange range) {
  if (range.most == std::numeric_limits<double>::max()) return fmt::format("from {}", range.least);
  return fmt::format("from {} to {}", range.least, range.most);
}

const std::int64_t* integer_in(const JsonValue& value, IntegerRange range) {
  const auto* integer = value.get<std::int64_t>();
  return integer && *integer >= range.least && *integer <= range.most ? integer : nullptr;
}

}  // namespace

JsonFields::JsonFields(const std::string& file, std::string prefix, const JsonValue& object)
    : file_(&file), prefix_(std::move(prefix)), object_(object.get<JsonObject>()) {
  if (object_) return;
  const std::string place = prefix_.empty() ? file : fmt::format("{}: {}", file, prefix_);
  throw Error(fmt::format("{}: expected a JSON object, found {}; {}", place, describe_json(object), kAdvice));
}

const JsonValue* JsonFields::find(std::string_view key) const {
  const JsonValue* value = find_member(*object_, key);
  return value && !value->get<JsonNull>() ? value : nullptr;
}

void JsonFields::refuse(std::string_view key, std::string_view expected, std::string_view advice) const {
  const JsonValue* value = find(key);
  throw Error(fmt::format("{}: {}{}: expected {}, found {}; {}", *file_, prefix_, key, expected,
                          value ? describe_json(*value) : "no such key", advice));
}

std::optional<std::int64_t> JsonFields::find_integer(std::string_view key, IntegerRange range) const {
  const JsonValue* value = find(key);
  if (!value) return std::nullopt;
  const std::int64_t* integer = integer_in(*value, range);
  if (!integer) refuse(key, "a whole number " + describe_range(range), kAdvice);
  return *integer;
}

std::optional<double> JsonFields::find_number(std::string_view key, NumberRange range) const {
  const JsonValue* value = find(key);
  if (!value) return std::nullopt;
  const auto* real = value->get<double>();
  const auto* integer = value->get<std::int64_t>();
  const double number = real ? *real : integer ? static_cast<double>(*integer) : 0;
  if ((!real && !integer) || !(number >= range.least && number <= range.most))
    refuse(key, "a number " + describe_range(range), kAdvice);
  return number;
}

std::optional<bool> JsonFields::find_boolean(std::string_view key) const {
  const JsonValue* value = find(key);
  if (!value) return std::nullopt;
  const auto* boolean = value->get<bool>();
  if (!boolean) refuse(key, "true or false", kAdvice);
  return *boolean;
}

std::optional<std::string> JsonFields::find_text(std::string_view key) const {
  const JsonValue* value = find(key);
  if (!value) return std::nullopt;
  const auto* text = value->get<std::string>();
  if (!text) refuse(key, "a text", kAdvice);
  return *text;
}

std::optional<JsonFields> JsonFields::find_object(std::string_view key) const {
  const JsonValue* value = find(key);
  if (!value) return std::nullopt;
  if (!value->get<JsonObject>()) refuse(key, "an object", kAdvice);
  return JsonFields(*file_, fmt::format("{}{}.", prefix_, key), *value);
}

std::optional<std::vector<std::int64_t>> JsonFields::find_integers(std::string_view key,
                                                                   IntegerRange range) const {
  const JsonValue* value = find(key);
  if (!value) return std::nullopt;
  const std::string expected = "a list of whole numbers " + describe_range(range);
  const auto* items = value->get<JsonArray>();
  if (!items) refuse(key, expected, kAdvice);
  std::vector<std::int64_t> integers;
  for (const JsonValue& item : *items) {
    const std::int64_t* integer = integer_in(item, range);
    if (!integer) refuse(key, expected, kAdvice);
    integers.push_back(*integer);
  }
  return integers;
}

std::optional<std::vector<std::string>> JsonFields::find_texts(std::string_view key) const {
  const JsonValue* value = find(key);
  if (!value) return std::nullopt;
  const auto* items = value->get<JsonArray>();
  if (!items) refuse(key, "a list of texts", kAdvice);
  std::vector<std::string> texts;
  for (const JsonValue& item : *items) {
    const auto* text = item.get<std::string>();
    if (!text) refuse(key, "a list of texts", kAdvice);
    texts.push_back(*text);
  }
  return texts;
}

std::vector<std::int64_t> JsonFields::integers_or_one(std::string_view key, IntegerRange range) const {
  const JsonValue* value = find(key);
  if (!value) return {};
  if (value->get<JsonArray>()) return *find_integers(key, range);
  return {*find_integer(key, range)};
}

std::int64_t JsonFields::integer(std::string_view key, IntegerRange range) const {
  const std::optional<std::int64_t> value = find_integer(key, range);
  if (!value) refuse(key, "a whole number " + describe_range(range), kAdvice);
  return *value;
}

double JsonFields::number(std::string_view key, NumberRange range) const {
  const std::optional<double> value = find_number(key, range);
  if (!value) refuse(key, "a number " + describe_range(range), kAdvice);
  return *value;
}

std::string JsonFields::text(std::string_view key) const {
  std::optional<std::string> value = find_text(key);
  if (!value) refuse(key, "a text", kAdvice);
  return *std::move(value);
}

JsonFields JsonFields::object(std::string_view key) const {
  std::optional<JsonFields> value = find_object(key);
  if (!value) refuse(key, "an object", kAdvice);
  return *std::move(value);
}

std::vector<std::int64_t> JsonFields::integers(std::string_view key, IntegerRange range) const {
  std::optional<std::vector<std::int64_t>> value = find_integers(key, range);
  if (!value) refuse(key, "a list of whole numbers " + describe_range(range), kAdvice);
  return *std::move(value);
}

const JsonArray& JsonFields::list(std::string_view key) const {
  const JsonValue* value = find(key);
  const auto* items = value ? value->get<JsonArray>() : nullptr;
  if (!items) refuse(key, "a list", kAdvice);
  return *items;
}

}  // namespace draftsmith
