// Values of a file's tensor on their way to a device: converted and looked at over all cores, and copied from pinned
// memory while the next ones are converted. A pageable copy by one thread takes ten times as long.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "data/tensor_entry.h"
#include "device/memory.h"
#include "device/stream.h"
#include "tensor/tensor.h"

namespace draftsmith {

// Owned and used by one thread. Where the host addresses the device's memory there is nothing between.
template <typename T>
class TensorUpload {
 public:
  // `piece` values are copied at once.
  explicit TensorUpload(const Stream& stream, std::int64_t piece = (std::int64_t{32} << 20) / sizeof(T));

  // Blocks until the device has all values of `entry`, which is floating point. Throws Error naming the tensor and its
  // first value that is not finite.
  void operator()(const TensorEntry& entry, Vector<T> out);

 private:
  struct Half {
    explicit Half(const Device& device) : copied(device) {}
    Vector<T> values;
    Event copied;
  };

  const Stream stream_;
  const std::int64_t piece_;
  Buffer memory_;
  std::optional<std::array<Half, 2>> halves_;  // where the host does not address the device's memory
};

}  // namespace draftsmith
