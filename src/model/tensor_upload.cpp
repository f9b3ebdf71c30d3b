#include "model/tensor_upload.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include <fmt/core.h>

#include "base/all_cores.h"
#include "base/error.h"

namespace draftsmith {
namespace {

constexpr std::int64_t kBatch = std::int64_t{1} << 15;  // looked at while they are in a core's cache
constexpr std::int64_t kLeastOfACore = 16 * kBatch;     // what starting a thread is worth

TensorEntry slice(const TensorEntry& entry, std::int64_t begin, std::int64_t count) {
  const auto element_bytes = static_cast<std::int64_t>(file_type_bytes(entry.type));
  return {.label = entry.label,
          .type = entry.type,
          .shape = {count},
          .bytes = entry.bytes.subspan(static_cast<std::size_t>(begin * element_bytes),
                                       static_cast<std::size_t>(count * element_bytes))};
}

// Without a branch a value, so that the compiler takes many at once.
template <typename T>
bool all_finite(Vector<const T> values) {
  int others = 0;
  for (std::int64_t i = 0; i < values.size; ++i)
    others |= std::isfinite(static_cast<float>(values[i])) ? 0 : 1;
  return others == 0;
}

template <typename T>
std::int64_t first_not_finite(Vector<const T> values) {
  return std::find_if(values.begin(), values.end(),
                      [](T value) { return !std::isfinite(static_cast<float>(value)); }) -
         values.begin();
}

void lower(std::atomic<std::int64_t>& least, std::int64_t value) {
  std::int64_t known = least;
  while (value < known && !least.compare_exchange_weak(known, value)) {
  }
}

// The place of the first value that is not finite, or the number of values.
template <typename T>
std::int64_t read_values(const TensorEntry& entry, std::int64_t first, Vector<T> out) {
  std::atomic<std::int64_t> bad = out.size;
  on_all_cores(out.size, kLeastOfACore, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end && at < bad; at += kBatch) {
      const Vector<T> batch = out.slice(at, std::min(kBatch, end - at));
      read_as(slice(entry, first + at, batch.size),
              std::span<T>(batch.data, static_cast<std::size_t>(batch.size)));
      if (!all_finite<T>(batch)) lower(bad, at + first_not_finite<T>(batch));
    }
  });
  return bad;
}

}  // namespace

template <typename T>
TensorUpload<T>::TensorUpload(const Stream& stream, std::int64_t piece) : stream_(stream), piece_(piece) {
  if (host_addressable(*stream.device)) return;
  memory_ = Buffer::pinned(2 * piece * static_cast<std::int64_t>(sizeof(T)));
  halves_.emplace(std::array{Half(*stream.device), Half(*stream.device)});
  for (std::int64_t half = 0; half < 2; ++half) {
    (*halves_)[half].values = {reinterpret_cast<T*>(memory_.data()) + half * piece, piece};
  }
}

template <typename T>
void TensorUpload<T>::operator()(const TensorEntry& entry, Vector<T> out) {
  DRAFTSMITH_CHECK(entry.elements() == out.size, "a tensor and its place have the same size");
  for (std::int64_t begin = 0, turn = 0; begin < out.size; begin += piece_, turn ^= 1) {
    const Vector<T> to = out.slice(begin, std::min(piece_, out.size - begin));
    Half* const half = halves_ ? &(*halves_)[turn] : nullptr;
    if (half && begin >= 2 * piece_) half->copied.synchronize();
    const Vector<T> values = half ? half->values.slice(0, to.size) : to;
    const std::int64_t bad = read_values(entry, begin, values);
    if (bad < values.size) {
      synchronize(stream_);
      throw Error(
          fmt::format("{} has the value {} at element {}; expected finite numbers. The file is "
                      "damaged or was saved from a diverged model: fetch it again",
                      entry.label, static_cast<float>(values[bad]), begin + bad));
    }
    if (!half) continue;
    copy_bytes(stream_, to.data, values.data, to.size * static_cast<std::int64_t>(sizeof(T)));
    half->copied.record(stream_);
  }
  synchronize(stream_);
}

template class TensorUpload<float>;
template class TensorUpload<bf16>;

}  // namespace draftsmith
