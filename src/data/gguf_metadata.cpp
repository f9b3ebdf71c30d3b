#include "data/gguf_metadata.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "data/utf8.h"

namespace draftsmith {
namespace {

constexpr int kMostNesting = 8;
constexpr std::string_view kAdvice = "fetch the file again, or convert the model again";

struct TypeInfo {
  std::string_view name;
  std::uint64_t least_bytes;  // of one value in the file; all there are unless it is a text or an array
};

// In the order of the format's numbers.
constexpr std::array kTypes{
    TypeInfo{"u8", 1},  TypeInfo{"i8", 1},  TypeInfo{"u16", 2},     TypeInfo{"i16", 2},  TypeInfo{"u32", 4},
    TypeInfo{"i32", 4}, TypeInfo{"f32", 4}, TypeInfo{"boolean", 1}, TypeInfo{"text", 8}, TypeInfo{"list", 12},
    TypeInfo{"u64", 8}, TypeInfo{"i64", 8}, TypeInfo{"f64", 8}};

const TypeInfo& info(GgufValueType type) { return kTypes[static_cast<std::size_t>(type)]; }

GgufValueType read_type(GgufCursor& cursor, const std::string& what) {
  const auto number = cursor.number<std::uint32_t>("the type of " + what);
  if (number >= kTypes.size())
    throw Error(fmt::format("{}: expected a type from 0 to {} for {}, found {}; {}", cursor.file(),
                            kTypes.size() - 1, what, number, kAdvice));
  return static_cast<GgufValueType>(number);
}

template <typename T>
T load(std::span<const std::byte> bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

// Nothing when the type is no integer or the value does not fit.
std::optional<std::int64_t> integer_of(GgufValueType type, std::span<const std::byte> bytes) {
  switch (type) {
    case GgufValueType::u8:
      return load<std::uint8_t>(bytes);
    case GgufValueType::i8:
      return load<std::int8_t>(bytes);
    case GgufValueType::u16:
      return load<std::uint16_t>(bytes);
    case GgufValueType::i16:
      return load<std::int16_t>(bytes);
    case GgufValueType::u32:
      return load<std::uint32_t>(bytes);
    case GgufValueType::i32:
      return load<std::int32_t>(bytes);
    case GgufValueType::i64:
      return load<std::int64_t>(bytes);
    case GgufValueType::u64: {
      const auto value = load<std::uint64_t>(bytes);
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
      return static_cast<std::int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

// The double nearest to the shortest decimal that reads back as this float.
double shortest_decimal(float value) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  double result = value;
  std::from_chars(text.data(), end, result);
  return result;
}

std::optional<double> number_of(GgufValueType type, std::span<const std::byte> bytes) {
  if (type == GgufValueType::f32) return shortest_decimal(load<float>(bytes));
  if (type == GgufValueType::f64) return load<double>(bytes);
  if (const auto integer = integer_of(type, bytes)) return static_cast<double>(*integer);
  return std::nullopt;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool is_utf8(std::string_view text) { return valid_utf8_bytes(text) == text.size(); }

}  // namespace

GgufMetadata::GgufMetadata(GgufCursor& cursor, std::uint64_t count) : file_(cursor.file()) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string_view key = cursor.text(fmt::format("key {}", i));
    if (key.empty() || !is_utf8(key))
      throw Error(fmt::format("{}: expected UTF-8 text for key {}, found {}; {}", file_, i,
                              key.empty() ? "none" : "other bytes", kAdvice));
    const Value value = read_value(cursor, fmt::format("\"{}\"", key));
    if (!values_.emplace(key, value).second)
      throw Error(
          fmt::format("{}: the key \"{}\" stands twice; expected every key once; {}", file_, key, kAdvice));
  }
}

GgufMetadata::Value GgufMetadata::read_value(GgufCursor& cursor, const std::string& what) {
  Value value{.type = read_type(cursor, what)};
  if (value.type == GgufValueType::array) {
    value.element = read_type(cursor, "the elements of " + what);
    value.count = cursor.count(info(value.element).least_bytes, "the number of elements of " + what);
    // The elements are walked on a copy, then taken as one piece.
    GgufCursor walk = cursor;
    skip_elements(walk, value.element, value.count, what, 1);
    value.bytes = cursor.take(walk.position() - cursor.position(), what);
  } else if (value.type == GgufValueType::text) {
    const std::string_view text = cursor.text(what);
    value.bytes = std::as_bytes(std::span(text));
  } else {
    value.bytes = cursor.take(info(value.type).least_bytes, what);
    const bool is_boolean = value.type == GgufValueType::boolean;
    if (is_boolean && load<std::uint8_t>(value.bytes) > 1)
      throw Error(fmt::format("{}: expected 0 or 1 for the boolean {}, found {}; {}", cursor.file(), what,
                              load<std::uint8_t>(value.bytes), kAdvice));
  }
  return value;
}

void GgufMetadata::skip_elements(GgufCursor& cursor, GgufValueType type, std::uint64_t count,
                                 const std::string& what, int depth) {
  if (depth > kMostNesting)
    throw Error(fmt::format("{}: {} is nested deeper than {} levels; {}", cursor.file(), what, kMostNesting,
                            kAdvice));
  if (type != GgufValueType::text && type != GgufValueType::array) {
    cursor.take(count * info(type).least_bytes, what);
    return;
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    if (type == GgufValueType::text) {
      cursor.text(what);
    } else {
      const GgufValueType inner = read_type(cursor, "the elements of " + what);
      const std::uint64_t inner_count =
          cursor.count(info(inner).least_bytes, "the number of elements of " + what);
      skip_elements(cursor, inner, inner_count, what, depth + 1);
    }
  }
}

const GgufMetadata::Value* GgufMetadata::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

std::string GgufMetadata::describe(const Value& value) {
  constexpr std::size_t kLongest = 80;
  if (value.type == GgufValueType::array)
    return fmt::format("a list of {} of type {}", value.count, info(value.element).name);
  if (value.type == GgufValueType::boolean) return load<bool>(value.bytes) ? "true" : "false";
  if (const auto integer = integer_of(value.type, value.bytes)) return fmt::format("{}", *integer);
  if (const auto number = number_of(value.type, value.bytes))
    return fmt::format("{} of type {}", *number, info(value.type).name);
  if (value.type != GgufValueType::text) return fmt::format("a value of type {}", info(value.type).name);
  std::string text;
  append_replacing_ill_formed(text, text_of(value.bytes).substr(0, kLongest));
  return fmt::format("\"{}\"{}", text, value.bytes.size() > kLongest ? "…" : "");
}

void GgufMetadata::refuse(std::string_view key, std::string_view expected, std::string_view advice) const {
  const Value* value = find(key);
  throw Error(fmt::format("{}: expected {} for \"{}\", found {}; {}", file_, expected, key,
                          value ? describe(*value) : "no such key", advice));
}

std::optional<std::int64_t> GgufMetadata::find_integer(std::string_view key, IntegerRange range) const {
  const Value* value = find(key);
  if (!value) return std::nullopt;
  const auto integer = integer_of(value->type, value->bytes);
  if (!integer || *integer < range.least || *integer > range.most)
    refuse(key, fmt::format("a whole number from {} to {}", range.least, range.most), kAdvice);
  return integer;
}

std::optional<double> GgufMetadata::find_number(std::string_view key, NumberRange range) const {
  const Value* value = find(key);
  if (!value) return std::nullopt;
  const auto number = number_of(value->type, value->bytes);
  if (!number || !(*number >= range.least && *number <= range.most))  // NaN is in no range
    refuse(key, fmt::format("a number from {} to {}", range.least, range.most), kAdvice);
  return number;
}

std::optional<bool> GgufMetadata::find_boolean(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return std::nullopt;
  if (value->type != GgufValueType::boolean) refuse(key, "true or false", kAdvice);
  return load<bool>(value->bytes);
}

std::optional<std::string> GgufMetadata::find_text(std::string_view key) const {
  const Value* value = find(key);
  if (!value) return std::nullopt;
  if (value->type != GgufValueType::text || !is_utf8(text_of(value->bytes)))
    refuse(key, "a text in UTF-8", kAdvice);
  return std::string(text_of(value->bytes));
}

const GgufMetadata::Value* GgufMetadata::find_array(std::string_view key, std::string_view expected) const {
  const Value* value = find(key);
  if (value && value->type != GgufValueType::array) refuse(key, expected, kAdvice);
  return value;
}

std::optional<std::vector<std::string_view>> GgufMetadata::find_texts(std::string_view key) const {
  constexpr std::string_view kExpected = "a list of texts in UTF-8";
  const Value* value = find_array(key, kExpected);
  if (!value) return std::nullopt;
  if (value->element != GgufValueType::text) refuse(key, kExpected, kAdvice);
  GgufCursor cursor(value->bytes, file_);
  std::vector<std::string_view> texts;
  texts.reserve(value->count);
  for (std::uint64_t i = 0; i < value->count; ++i) {
    texts.push_back(cursor.text(key));
    if (!is_utf8(texts.back())) refuse(key, kExpected, kAdvice);
  }
  return texts;
}

std::optional<std::vector<std::int64_t>> GgufMetadata::find_integers(std::string_view key,
                                                                     IntegerRange range) const {
  const std::string expected = fmt::format("a list of whole numbers from {} to {}", range.least, range.most);
  const Value* value = find_array(key, expected);
  if (!value) return std::nullopt;
  const std::uint64_t element_bytes = info(value->element).least_bytes;
  std::vector<std::int64_t> integers;
  for (std::uint64_t i = 0; i < value->count; ++i) {
    // Elements without a fixed size are no integers; the first of them is refused.
    const auto integer = integer_of(value->element, value->bytes.subspan(i * element_bytes));
    if (!integer || *integer < range.least || *integer > range.most) refuse(key, expected, kAdvice);
    integers.push_back(*integer);
  }
  return integers;
}

std::int64_t GgufMetadata::integer(std::string_view key, IntegerRange range) const {
  if (const auto found = find_integer(key, range)) return *found;
  refuse(key, "a whole number", kAdvice);
}

double GgufMetadata::number(std::string_view key, NumberRange range) const {
  if (const auto found = find_number(key, range)) return *found;
  refuse(key, "a number", kAdvice);
}

std::string GgufMetadata::text(std::string_view key) const {
  if (auto found = find_text(key)) return *std::move(found);
  refuse(key, "a text", kAdvice);
}

std::vector<std::string_view> GgufMetadata::texts(std::string_view key) const {
  if (auto found = find_texts(key)) return *std::move(found);
  refuse(key, "a list of texts", kAdvice);
}

}  // namespace draftsmith
