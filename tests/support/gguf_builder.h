// Makes GGUF files in memory, good ones and, by the fields of the same names, bad ones.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace draftsmith {

// The format's numbers of value types.
enum class GgufTag : std::uint32_t {
  u8 = 0,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  text,
  list,
  u64,
  i64,
  f64
};

template <typename T>
std::string little_endian(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

inline std::string gguf_text(std::string_view text) {
  return little_endian<std::uint64_t>(text.size()) + std::string(text);
}

struct GgufBuilder {
  struct Tensor {
    std::string name;
    std::vector<std::uint64_t> shape;  // row-major, as the program has it
    std::uint32_t type;                // the format's number
    std::string bytes;
    std::optional<std::uint64_t> offset = {};  // else behind the tensor before
  };

  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::optional<std::uint64_t> tensor_count, pair_count;  // else what is there
  std::uint64_t alignment = 32;                           // not written as a pair by itself
  std::vector<std::string> pairs;
  std::vector<Tensor> tensors;

  void pair(std::string_view key, GgufTag type, const std::string& value) {
    pairs.push_back(gguf_text(key) + little_endian(type) + value);
  }
  void u32(std::string_view key, std::uint32_t value) { pair(key, GgufTag::u32, little_endian(value)); }
  void f32(std::string_view key, float value) { pair(key, GgufTag::f32, little_endian(value)); }
  void boolean(std::string_view key, bool value) { pair(key, GgufTag::boolean, little_endian(value)); }
  void text(std::string_view key, std::string_view value) { pair(key, GgufTag::text, gguf_text(value)); }
  void list(std::string_view key, GgufTag type, std::uint64_t count, const std::string& elements) {
    pair(key, GgufTag::list, little_endian(type) + little_endian(count) + elements);
  }
  void texts(std::string_view key, const std::vector<std::string>& values) {
    std::string elements;
    for (const std::string& value : values) elements += gguf_text(value);
    list(key, GgufTag::text, values.size(), elements);
  }
  void i32s(std::string_view key, const std::vector<std::int32_t>& values) {
    std::string elements;
    for (const std::int32_t value : values) elements += little_endian(value);
    list(key, GgufTag::i32, values.size(), elements);
  }

  // Without the pair of that key, which may be absent.
  void remove(std::string_view key) {
    std::erase_if(pairs, [&](const std::string& pair) { return pair.starts_with(gguf_text(key)); });
  }
  Tensor& tensor(std::string_view name) {
    for (Tensor& each : tensors)
      if (each.name == name) return each;
    return tensors.emplace_back();
  }

  std::string build() const {
    std::string header = magic + little_endian(version) +
                         little_endian<std::uint64_t>(tensor_count.value_or(tensors.size())) +
                         little_endian<std::uint64_t>(pair_count.value_or(pairs.size()));
    for (const std::string& pair : pairs) header += pair;
    std::string data;
    for (const Tensor& tensor : tensors) {
      data.resize((data.size() + alignment - 1) / alignment * alignment);
      header += gguf_text(tensor.name) + little_endian(static_cast<std::uint32_t>(tensor.shape.size()));
      for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size)
        header += little_endian(*size);
      header += little_endian(tensor.type);
      header += little_endian<std::uint64_t>(tensor.offset.value_or(data.size()));
      data += tensor.bytes;
    }
    header.resize((header.size() + alignment - 1) / alignment * alignment);
    return header + data;
  }
};

}  // namespace draftsmith
