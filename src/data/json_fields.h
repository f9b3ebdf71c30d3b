// The members of a JSON object, read by key and checked one by one. Every failure is an Error with the file,
// the key, what was expected, what was found and what to do. A key whose value is null counts as absent, as
// Hugging Face configurations mean it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/json.h"

namespace draftsmith {

// Both ends belong to the range.
struct IntegerRange {
  std::int64_t least = 0;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
};
struct NumberRange {
  double least = 0;
  double most = std::numeric_limits<double>::max();
};

// A view: the object and the file's name must outlive it.
class JsonFields {
 public:
  // `prefix` is the way to the object inside the file, such as "dflash_config."; empty for the whole file.
  JsonFields(const std::string& file, std::string prefix, const JsonValue& object);
  JsonFields(std::string&&, std::string, const JsonValue&) = delete;

  bool has(std::string_view key) const { return find(key) != nullptr; }

  // Absent is nothing; a wrong type or value is an Error.
  std::optional<std::int64_t> find_integer(std::string_view key, IntegerRange range) const;
  std::optional<double> find_number(std::string_view key, NumberRange range) const;
  std::optional<bool> find_boolean(std::string_view key) const;
  std::optional<std::string> find_text(std::string_view key) const;
  std::optional<JsonFields> find_object(std::string_view key) const;
  std::optional<std::vector<std::int64_t>> find_integers(std::string_view key, IntegerRange range) const;
  std::optional<std::vector<std::string>> find_texts(std::string_view key) const;
  // One whole number or a list of them; absent is empty.
  std::vector<std::int64_t> integers_or_one(std::string_view key, IntegerRange range) const;

  // Absent is an Error, too.
  std::int64_t integer(std::string_view key, IntegerRange range) const;
  double number(std::string_view key, NumberRange range) const;
  std::string text(std::string_view key) const;
  JsonFields object(std::string_view key) const;
  std::vector<std::int64_t> integers(std::string_view key, IntegerRange range) const;
  const JsonArray& list(std::string_view key) const;

  // Throws an Error about a key whose value (or absence) cannot be used.
  [[noreturn]] void refuse(std::string_view key, std::string_view expected, std::string_view advice) const;

 private:
  const JsonValue* find(std::string_view key) const;

  const std::string* file_;
  std::string prefix_;
  const JsonObject* object_;
};

}  // namespace draftsmith
