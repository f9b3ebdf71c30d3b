#include "data/tensor_entry.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "base/nearest.h"

namespace draftsmith {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian and are read as they are");

struct TypeInfo {
  FileType type;
  std::string_view name;
  std::size_t bytes;
};

// In the order of FileType.
constexpr std::array kTypes{
    TypeInfo{FileType::boolean, "BOOL", 1},    TypeInfo{FileType::u8, "U8", 1},
    TypeInfo{FileType::i8, "I8", 1},           TypeInfo{FileType::f8_e5m2, "F8_E5M2", 1},
    TypeInfo{FileType::f8_e4m3, "F8_E4M3", 1}, TypeInfo{FileType::i16, "I16", 2},
    TypeInfo{FileType::u16, "U16", 2},         TypeInfo{FileType::f16, "F16", 2},
    TypeInfo{FileType::bf16, "BF16", 2},       TypeInfo{FileType::i32, "I32", 4},
    TypeInfo{FileType::u32, "U32", 4},         TypeInfo{FileType::f32, "F32", 4},
    TypeInfo{FileType::i64, "I64", 8},         TypeInfo{FileType::u64, "U64", 8},
    TypeInfo{FileType::f64, "F64", 8},
};

const TypeInfo& info(FileType type) { return kTypes[static_cast<std::size_t>(type)]; }

// Half precision while in a file.
struct StoredHalf {
  std::uint16_t bits;
  operator float() const { return float_from_f16(bits); }
};

// Rounds to odd: towards zero, then the last bit says whether anything was lost. A later rounding to fewer
// bits then gives what one rounding of the double would have given.
float round_to_odd(double value) {
  float rounded = static_cast<float>(value);
  if (std::isnan(value) || static_cast<double>(rounded) == value) return rounded;
  if (std::fabs(static_cast<double>(rounded)) > std::fabs(value)) rounded = std::nextafter(rounded, 0.0f);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(rounded) | 1u);
}

template <typename To, typename From>
To convert(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<To, bf16>) {
    if constexpr (std::is_same_v<From, double>) {
      return bf16(round_to_odd(value));
    } else {
      return bf16(static_cast<float>(value));
    }
  } else if constexpr (std::is_same_v<From, bf16> || std::is_same_v<From, StoredHalf>) {
    return static_cast<To>(static_cast<float>(value));
  } else {
    return static_cast<To>(value);
  }
}

template <typename From, typename To>
void convert_all(const TensorEntry& entry, std::span<To> out) {
  if constexpr (std::is_same_v<From, To>) {
    if (!out.empty()) std::memcpy(out.data(), entry.bytes.data(), out.size_bytes());
  } else {
    for (std::size_t i = 0; i < out.size(); ++i) {
      From value;
      std::memcpy(&value, entry.bytes.data() + i * sizeof(From), sizeof(From));
      out[i] = convert<To>(value);
    }
  }
}

template <typename To>
void check_count(const TensorEntry& entry, std::span<To> out) {
  if (static_cast<std::size_t>(entry.elements()) == out.size()) return;
  throw Error(fmt::format("{}: expected {} elements, found {} (shape {}); is this the file of another model?",
                          entry.label, out.size(), entry.elements(), describe_shape(entry.shape)));
}

[[noreturn]] void refuse_type(const TensorEntry& entry, std::string_view expected) {
  throw Error(fmt::format("{}: expected {}, found {}; convert the file first", entry.label, expected,
                          file_type_name(entry.type)));
}

constexpr std::string_view kFloatingTypes = "BF16, F16, F32 or F64";

template <typename To>
void read_floating(const TensorEntry& entry, std::span<To> out) {
  check_count(entry, out);
  switch (entry.type) {
    case FileType::bf16:
      return convert_all<bf16>(entry, out);
    case FileType::f16:
      return convert_all<StoredHalf>(entry, out);
    case FileType::f32:
      return convert_all<float>(entry, out);
    case FileType::f64:
      return convert_all<double>(entry, out);
    default:
      refuse_type(entry, kFloatingTypes);
  }
}

}  // namespace

std::size_t file_type_bytes(FileType type) { return info(type).bytes; }

std::string_view file_type_name(FileType type) { return info(type).name; }

std::optional<FileType> find_file_type(std::string_view name) {
  for (const TypeInfo& known : kTypes)
    if (known.name == name) return known.type;
  return std::nullopt;
}

std::string file_type_names() {
  std::vector<std::string> names;
  for (const TypeInfo& known : kTypes) names.emplace_back(known.name);
  return join(names, ", ");
}

std::string describe_shape(std::span<const std::int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::optional<std::int64_t> element_count(std::span<const std::int64_t> shape) {
  std::int64_t count = 1;
  bool empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0) return std::nullopt;
    if (size == 0) empty = true;
    if (size != 0 && count > std::numeric_limits<std::int64_t>::max() / size) return std::nullopt;
    if (size != 0) count *= size;
  }
  return empty ? 0 : count;
}

void check_shape(const TensorEntry& entry, std::span<const std::int64_t> expected) {
  if (std::equal(expected.begin(), expected.end(), entry.shape.begin(), entry.shape.end())) return;
  throw Error(fmt::format("{}: expected shape {}, found {}; do config.json and the weights belong together?",
                          entry.label, describe_shape(expected), describe_shape(entry.shape)));
}

void check_floating(const TensorEntry& entry) {
  for (const FileType type : {FileType::bf16, FileType::f16, FileType::f32, FileType::f64}) {
    if (entry.type == type) return;
  }
  refuse_type(entry, kFloatingTypes);
}

void read_as(const TensorEntry& entry, std::span<bf16> out) { read_floating(entry, out); }
void read_as(const TensorEntry& entry, std::span<float> out) { read_floating(entry, out); }
void read_as(const TensorEntry& entry, std::span<double> out) { read_floating(entry, out); }

void read_as(const TensorEntry& entry, std::span<std::int64_t> out) {
  check_count(entry, out);
  switch (entry.type) {
    case FileType::boolean:
    case FileType::u8:
      return convert_all<std::uint8_t>(entry, out);
    case FileType::i8:
      return convert_all<std::int8_t>(entry, out);
    case FileType::i16:
      return convert_all<std::int16_t>(entry, out);
    case FileType::u16:
      return convert_all<std::uint16_t>(entry, out);
    case FileType::i32:
      return convert_all<std::int32_t>(entry, out);
    case FileType::u32:
      return convert_all<std::uint32_t>(entry, out);
    case FileType::i64:
      return convert_all<std::int64_t>(entry, out);
    default:
      refuse_type(entry, "booleans or integers up to I64");
  }
}

}  // namespace draftsmith
