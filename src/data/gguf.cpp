#include "data/gguf.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "base/arithmetic.h"
#include "base/error.h"
#include "data/tensor_entry.h"
#include "data/utf8.h"

namespace draftsmith {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr std::string_view kAlignmentKey = "general.alignment";
constexpr std::uint64_t kLeastPair_bytes = 13;    // key length, type, one byte of value
constexpr std::uint64_t kLeastTensor_bytes = 24;  // name length, dimension count, type, offset
constexpr std::uint32_t kMostDimensions = 4;
constexpr std::string_view kDamaged = "the file is cut short or damaged, fetch it again";

struct Counts {
  std::uint64_t tensors, pairs;
};

Counts read_start(GgufCursor& cursor) {
  const auto magic = cursor.take(kMagic.size(), "\"GGUF\"");
  if (std::memcmp(magic.data(), kMagic.data(), kMagic.size()) != 0)
    throw Error(
        fmt::format("{}: expected a file that starts with \"GGUF\"; is this a GGUF file?", cursor.file()));
  const auto version = cursor.number<std::uint32_t>("the version");
  if (version == 0x02000000u || version == 0x03000000u)
    throw Error(
        fmt::format("{}: expected a little-endian file, found a big-endian one; convert it again on "
                    "a little-endian machine",
                    cursor.file()));
  if (version != 2 && version != 3)
    throw Error(fmt::format("{}: expected version 2 or 3 of GGUF, found {}; convert the model again",
                            cursor.file(), version));
  const std::uint64_t tensors = cursor.count(kLeastTensor_bytes, "the number of tensors");
  const std::uint64_t pairs = cursor.count(kLeastPair_bytes, "the number of key-value pairs");
  return {tensors, pairs};
}

std::int64_t read_alignment(const GgufMetadata& metadata) {
  const std::int64_t alignment =
      metadata.find_integer(kAlignmentKey, {.least = 1, .most = std::numeric_limits<std::uint32_t>::max()})
          .value_or(32);
  if (alignment % 8 != 0) metadata.refuse(kAlignmentKey, "a multiple of 8", kDamaged);
  return alignment;
}

// What the header says of one tensor.
struct Declared {
  std::string name;
  std::vector<std::int64_t> shape;
  GgufType type;
  std::uint64_t offset;
};

std::vector<std::int64_t> read_shape(GgufCursor& cursor, const std::string& label) {
  const auto dimensions = cursor.number<std::uint32_t>("a dimension count");
  if (dimensions > kMostDimensions)
    throw Error(fmt::format("{}: expected at most {} dimensions, found {}; {}", label, kMostDimensions,
                            dimensions, kDamaged));
  std::vector<std::int64_t> shape(dimensions);
  for (std::size_t i = dimensions; i-- > 0;) {
    const auto size = cursor.number<std::uint64_t>("a size");
    if (size == 0 || size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      throw Error(fmt::format("{}: expected sizes of at least 1 that fit 63 bits, found {}; {}", label, size,
                              kDamaged));
    shape[i] = static_cast<std::int64_t>(size);
  }
  return shape;
}

Declared read_declared(GgufCursor& cursor, std::uint64_t index) {
  const std::string_view name = cursor.text(fmt::format("the name of tensor {}", index));
  if (name.empty() || valid_utf8_bytes(name) != name.size())
    throw Error(fmt::format("{}: expected UTF-8 text for the name of tensor {}, found {}; {}", cursor.file(),
                            index, name.empty() ? "none" : "other bytes", kDamaged));
  const std::string label = fmt::format("{}: tensor '{}'", cursor.file(), name);
  std::vector<std::int64_t> shape = read_shape(cursor, label);
  const auto number = cursor.number<std::uint32_t>("a tensor's type");
  const auto type = find_gguf_type(number);
  if (!type)
    throw Error(fmt::format("{}: is of type {}; supported are {}: convert the model to one of them", label,
                            describe_gguf_type(number), gguf_type_names()));
  return {std::string(name), std::move(shape), *type, cursor.number<std::uint64_t>("a tensor's offset")};
}

// The tensor's view of the data, all of its numbers checked.
GgufTensor place(const Declared& declared, const std::string& file, std::int64_t alignment,
                 std::span<const std::byte> data) {
  GgufTensor tensor{.label = fmt::format("{}: tensor '{}'", file, declared.name),
                    .type = declared.type,
                    .shape = declared.shape};
  const GgufTypeInfo& info = gguf_type_info(declared.type);
  const std::optional<std::int64_t> count = element_count(declared.shape);
  if (!count || *count / info.block_values > std::numeric_limits<std::int64_t>::max() / info.block_bytes)
    throw Error(fmt::format("{}: the bytes of {} {} do not fit 63 bits; {}", tensor.label, info.name,
                            describe_shape(declared.shape), kDamaged));
  if (tensor.columns() % info.block_values != 0)
    throw Error(fmt::format("{}: expected rows of whole blocks of {} for {}, found shape {}; {}",
                            tensor.label, info.block_values, info.name, describe_shape(declared.shape),
                            kDamaged));
  if (declared.offset % static_cast<std::uint64_t>(alignment) != 0)
    throw Error(fmt::format("{}: expected an offset that is a multiple of {}, found {}; {}", tensor.label,
                            alignment, declared.offset, kDamaged));
  const auto bytes = static_cast<std::uint64_t>(*count / info.block_values * info.block_bytes);
  if (declared.offset > data.size() || bytes > data.size() - declared.offset)
    throw Error(fmt::format("{}: expected {} bytes of {} {} at offset {}, but the data has {} bytes; {}",
                            tensor.label, bytes, info.name, describe_shape(declared.shape), declared.offset,
                            data.size(), kDamaged));
  tensor.bytes = data.subspan(static_cast<std::size_t>(declared.offset), static_cast<std::size_t>(bytes));
  return tensor;
}

void check_apart(std::vector<const GgufTensor*> tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const GgufTensor* a, const GgufTensor* b) {
    return std::less<>()(a->bytes.data(), b->bytes.data());
  });
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    const auto& before = tensors[i - 1]->bytes;
    if (tensors[i]->bytes.data() < before.data() + before.size())
      throw Error(fmt::format("{}: its data overlaps that of {}; expected tensors apart from each other; {}",
                              tensors[i]->label, tensors[i - 1]->label, kDamaged));
  }
}

}  // namespace

void GgufTensor::read_row(std::int64_t row, std::span<float> values) const {
  DRAFTSMITH_CHECK(row >= 0 && row < rows() && static_cast<std::int64_t>(values.size()) == columns(),
                   "a row of the tensor");
  const std::int64_t size_bytes = row_bytes();
  dequantise(type,
             bytes.subspan(static_cast<std::size_t>(row * size_bytes), static_cast<std::size_t>(size_bytes)),
             values);
}

GgufFile::GgufFile(const std::filesystem::path& path) : name_(path.string()), file_(path) {
  parse(file_.bytes());
}

GgufFile::GgufFile(std::span<const std::byte> bytes, const std::string& name) : name_(name) { parse(bytes); }

void GgufFile::parse(std::span<const std::byte> bytes) {
  GgufCursor cursor(bytes, name_);
  const Counts counts = read_start(cursor);
  metadata_.emplace(cursor, counts.pairs);
  const std::int64_t alignment = read_alignment(*metadata_);
  std::vector<Declared> declared;
  for (std::uint64_t i = 0; i < counts.tensors; ++i) declared.push_back(read_declared(cursor, i));
  const auto begin =
      static_cast<std::size_t>(round_up(static_cast<std::int64_t>(cursor.position()), alignment));
  const auto data = bytes.subspan(std::min(begin, bytes.size()));
  std::vector<const GgufTensor*> placed;
  for (const Declared& tensor : declared) {
    const auto [entry, is_new] = tensors_.emplace(tensor.name, place(tensor, name_, alignment, data));
    if (!is_new)
      throw Error(
          fmt::format("{}: stands twice; expected every name once; {}", entry->second.label, kDamaged));
    placed.push_back(&entry->second);
  }
  check_apart(std::move(placed));
}

const GgufTensor* GgufFile::find(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

std::vector<std::string> GgufFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  return names;
}

}  // namespace draftsmith
