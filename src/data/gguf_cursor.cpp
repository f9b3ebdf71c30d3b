#include "data/gguf_cursor.h"

#include <fmt/format.h>

#include "base/error.h"

namespace draftsmith {

std::span<const std::byte> GgufCursor::take(std::uint64_t bytes, std::string_view what) {
  const std::size_t left = bytes_.size() - position_;
  if (bytes > left)
    throw Error(
        fmt::format("{}: expected {} of {} bytes at byte {}, but only {} follow; the file is cut short or "
                    "damaged, fetch it again",
                    *file_, what, bytes, position_, left));
  const auto taken = bytes_.subspan(position_, static_cast<std::size_t>(bytes));
  position_ += taken.size();
  return taken;
}

std::string_view GgufCursor::text(std::string_view what) {
  const auto bytes = take(number<std::uint64_t>(fmt::format("the length of {}", what)), what);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::uint64_t GgufCursor::count(std::uint64_t least_bytes, std::string_view what) {
  const auto count = number<std::uint64_t>(what);
  const std::size_t left = bytes_.size() - position_;
  if (count > left / least_bytes)
    throw Error(
        fmt::format("{}: {} is {}, but the {} bytes that follow cannot hold so many; the file is cut short "
                    "or damaged, fetch it again",
                    *file_, what, count, left));
  return count;
}

}  // namespace draftsmith
