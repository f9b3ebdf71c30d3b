// Walks the header of a GGUF file from front to back: little-endian numbers, and texts as a length and bytes.
// Nothing is read past the end, and a count is refused when the bytes that are left cannot hold so many.
// Every failure is an Error with the file, what was expected and the place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace draftsmith {

// A view: the bytes and the file's name must outlive it.
class GgufCursor {
 public:
  GgufCursor(std::span<const std::byte> bytes, const std::string& file) : bytes_(bytes), file_(&file) {}

  // `what` names the value in errors.
  std::span<const std::byte> take(std::uint64_t bytes, std::string_view what);

  template <typename T>
  T number(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }

  // UTF-8 is not checked here.
  std::string_view text(std::string_view what);

  // A number of things that take at least so many bytes each.
  std::uint64_t count(std::uint64_t least_bytes, std::string_view what);

  std::size_t position() const { return position_; }
  const std::string& file() const { return *file_; }

 private:
  std::span<const std::byte> bytes_;
  const std::string* file_;
  std::size_t position_ = 0;
};

}  // namespace draftsmith
