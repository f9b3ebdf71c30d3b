// A tensor as a file holds it: a type, a shape and little-endian row-major bytes, and its conversion to the
// types that the program computes with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/number.h"

namespace draftsmith {

enum class FileType { boolean, u8, i8, f8_e5m2, f8_e4m3, i16, u16, f16, bf16, i32, u32, f32, i64, u64, f64 };

// Bytes of one element.
std::size_t file_type_bytes(FileType type);
// The name that safetensors headers use: "BF16", "F32", "BOOL", ...
std::string_view file_type_name(FileType type);
std::optional<FileType> find_file_type(std::string_view name);
// All names, for errors.
std::string file_type_names();

// "[2, 3]"; "[]" is a scalar.
std::string describe_shape(std::span<const std::int64_t> shape);

// Nothing when a size is negative or the product does not fit int64.
std::optional<std::int64_t> element_count(std::span<const std::int64_t> shape);

// A view: the bytes belong to the file that was opened and end with it. They need not be aligned.
struct TensorEntry {
  std::string label;  // "<file>: tensor '<name>'", for errors
  FileType type = FileType::f32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;

  std::int64_t elements() const { return static_cast<std::int64_t>(bytes.size() / file_type_bytes(type)); }
};

// An Error naming the tensor unless its shape is `expected`.
void check_shape(const TensorEntry& entry, std::span<const std::int64_t> expected);

// An Error naming the tensor unless its elements can be read as floating point.
void check_floating(const TensorEntry& entry);

// Convert all elements, in file order; an Error unless `out` has exactly as many. From bf16, f16, f32 and f64
// to floating point: exact where the value exists in the target type, else rounded to nearest even, once.
// From booleans and integers to int64. Anything else is an Error.
void read_as(const TensorEntry& entry, std::span<bf16> out);
void read_as(const TensorEntry& entry, std::span<float> out);
void read_as(const TensorEntry& entry, std::span<double> out);
void read_as(const TensorEntry& entry, std::span<std::int64_t> out);

}  // namespace draftsmith
