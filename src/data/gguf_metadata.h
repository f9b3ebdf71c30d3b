// The key-value pairs of a GGUF file, read by key and checked one by one. Arrays stay in the file until they
// are asked for, so a damaged count costs no memory. Every failure is an Error with the file, the key, what
// was expected, what was found and what to do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/gguf_cursor.h"
#include "data/json_fields.h"

namespace draftsmith {

// The format's own numbers.
enum class GgufValueType : std::uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  text = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

// A view of the file, which must outlive it; constant after construction.
class GgufMetadata {
 public:
  // Reads `count` pairs at the cursor. Refused are unknown types, arrays nested deeper than 8 levels, keys
  // that are empty, not UTF-8 or there twice, and booleans other than 0 and 1.
  GgufMetadata(GgufCursor& cursor, std::uint64_t count);

  bool has(std::string_view key) const { return values_.contains(key); }

  // Absent is nothing; another type or value is an Error. Integers may have any width; a number may be an
  // integer or a float, and an f32 becomes the shortest decimal that means it: 1e-05, not 9.999999747e-06.
  std::optional<std::int64_t> find_integer(std::string_view key, IntegerRange range) const;
  std::optional<double> find_number(std::string_view key, NumberRange range) const;
  std::optional<bool> find_boolean(std::string_view key) const;
  std::optional<std::string> find_text(std::string_view key) const;  // UTF-8, like every text here
  std::optional<std::vector<std::string_view>> find_texts(std::string_view key) const;
  std::optional<std::vector<std::int64_t>> find_integers(std::string_view key, IntegerRange range) const;

  // Absent is an Error, too.
  std::int64_t integer(std::string_view key, IntegerRange range) const;
  double number(std::string_view key, NumberRange range) const;
  std::string text(std::string_view key) const;
  std::vector<std::string_view> texts(std::string_view key) const;

  // Throws an Error about a key whose value (or absence) cannot be used.
  [[noreturn]] void refuse(std::string_view key, std::string_view expected, std::string_view advice) const;

 private:
  struct Value {
    GgufValueType type;
    GgufValueType element = GgufValueType::u8;  // of an array
    std::uint64_t count = 1;                    // elements of an array
    std::span<const std::byte> bytes;           // of the value, or of all elements
  };

  static Value read_value(GgufCursor& cursor, const std::string& what);
  static void skip_elements(GgufCursor& cursor, GgufValueType type, std::uint64_t count,
                            const std::string& what, int depth);
  const Value* find(std::string_view key) const;
  const Value* find_array(std::string_view key, std::string_view expected) const;
  static std::string describe(const Value& value);

  std::string file_;
  std::map<std::string, Value, std::less<>> values_;
};

}  // namespace draftsmith
