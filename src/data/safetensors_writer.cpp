#include "data/safetensors_writer.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "base/arithmetic.h"
#include "base/error.h"
#include "data/json.h"

namespace draftsmith {
namespace {

std::vector<std::int64_t> tensor_sizes_bytes(const std::vector<TensorDeclaration>& tensors) {
  std::set<std::string_view> names;
  std::vector<std::int64_t> sizes_bytes;
  for (const TensorDeclaration& tensor : tensors) {
    DRAFTSMITH_CHECK(names.insert(tensor.name).second, "a tensor is declared once");
    const std::optional<std::int64_t> count = element_count(tensor.shape);
    DRAFTSMITH_CHECK(count.has_value(), "a declared shape has a size");
    sizes_bytes.push_back(*count * static_cast<std::int64_t>(file_type_bytes(tensor.type)));
  }
  return sizes_bytes;
}

JsonValue header_entry(const TensorDeclaration& tensor, std::int64_t begin, std::int64_t end) {
  JsonArray shape;
  for (const std::int64_t size : tensor.shape) shape.push_back({size});
  return {JsonObject{{"dtype", {std::string(file_type_name(tensor.type))}},
                     {"shape", {std::move(shape)}},
                     {"data_offsets", {JsonArray{{begin}, {end}}}}}};
}

// The length prefix and the JSON, padded so that the data starts at a multiple of 8.
std::string make_header(const std::vector<TensorDeclaration>& tensors,
                        const std::vector<std::int64_t>& sizes_bytes,
                        const std::map<std::string, std::string>& metadata) {
  JsonObject texts{{"format", {std::string("pt")}}};
  for (const auto& [key, text] : metadata)
    if (key != "format") texts.push_back({key, {text}});
  JsonObject members{{"__metadata__", {std::move(texts)}}};
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    members.push_back({tensors[i].name, header_entry(tensors[i], begin, begin + sizes_bytes[i])});
    begin += sizes_bytes[i];
  }
  std::string text = write_json({std::move(members)}, JsonLayout::compact);
  text.resize(static_cast<std::size_t>(round_up(static_cast<std::int64_t>(text.size()), 8)), ' ');
  std::string header(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) header[i] = static_cast<char>((text.size() >> (8 * i)) & 0xff);
  return header + text;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path,
                                     std::vector<TensorDeclaration> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : tensors_(std::move(tensors)), sizes_bytes_(tensor_sizes_bytes(tensors_)), file_(path) {
  const std::string header = make_header(tensors_, sizes_bytes_, metadata);
  file_.append(std::as_bytes(std::span(header)));
  skip_full_tensors();
}

FileType SafetensorsWriter::expect(std::string_view name) const {
  DRAFTSMITH_CHECK(current_ < tensors_.size() && tensors_[current_].name == name,
                   "tensors are written in the order of their declaration");
  return tensors_[current_].type;
}

void SafetensorsWriter::skip_full_tensors() {
  while (current_ < tensors_.size() && written_bytes_ == sizes_bytes_[current_]) {
    ++current_;
    written_bytes_ = 0;
  }
}

void SafetensorsWriter::write_bytes(std::string_view name, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  expect(name);
  written_bytes_ += static_cast<std::int64_t>(bytes.size());
  DRAFTSMITH_CHECK(written_bytes_ <= sizes_bytes_[current_], "a tensor gets as many bytes as declared");
  file_.append(bytes);
  skip_full_tensors();
}

void SafetensorsWriter::write(std::string_view name, std::span<const float> values) {
  if (values.empty()) return;
  const FileType type = expect(name);
  if (type == FileType::f32) return write_bytes(name, std::as_bytes(values));
  DRAFTSMITH_CHECK(type == FileType::bf16, "floats are stored as f32 or bf16");
  std::array<bf16, 16384> rounded;
  while (!values.empty()) {
    const std::size_t count = std::min(values.size(), rounded.size());
    std::transform(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count), rounded.begin(),
                   [](float value) { return bf16(value); });
    write_bytes(name, std::as_bytes(std::span(rounded).first(count)));
    values = values.subspan(count);
  }
}

void SafetensorsWriter::write(std::string_view name, std::span<const bf16> values) {
  if (values.empty()) return;
  DRAFTSMITH_CHECK(expect(name) == FileType::bf16, "bf16 values are stored as bf16");
  write_bytes(name, std::as_bytes(values));
}

void SafetensorsWriter::write(std::string_view name, std::span<const std::int64_t> values) {
  if (values.empty()) return;
  DRAFTSMITH_CHECK(expect(name) == FileType::i64, "int64 values are stored as i64");
  write_bytes(name, std::as_bytes(values));
}

void SafetensorsWriter::finish() {
  DRAFTSMITH_CHECK(current_ == tensors_.size(), "all declared tensors are written before finish");
  file_.commit();
}

}  // namespace draftsmith
