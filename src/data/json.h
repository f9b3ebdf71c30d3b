// JSON as plain data. Stricter than most readers: a key that an object holds twice, text that is not UTF-8
// and nesting beyond 64 levels are Errors, which name the source and the place in it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace draftsmith {

struct JsonValue;
struct JsonMember;
using JsonArray = std::vector<JsonValue>;
using JsonObject = std::vector<JsonMember>;  // in the order of the text

struct JsonNull {};

// A whole number that int64 cannot hold is read as a double.
struct JsonValue {
  std::variant<JsonNull, bool, std::int64_t, double, std::string, JsonArray, JsonObject> data;

  template <typename T>
  const T* get() const {
    return std::get_if<T>(&data);
  }
};

struct JsonMember {
  std::string key;
  JsonValue value;
};

// `source` names the text in errors: a path.
JsonValue parse_json(std::string_view text, const std::string& source);

// Indented by two spaces a level, ending with a line break; or on one line without either.
enum class JsonLayout { indented, compact };
std::string write_json(const JsonValue& value, JsonLayout layout);

// A member's value, or nullptr.
const JsonValue* find_member(const JsonObject& object, std::string_view key);

// A short form for errors: numbers and short texts as they are, containers by their size.
std::string describe_json(const JsonValue& value);

}  // namespace draftsmith
