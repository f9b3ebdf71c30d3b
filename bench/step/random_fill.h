// Random weights and features for measurements: numbers that are cheap to make and look like a model's.
#pragma once

#include <algorithm>
#include <vector>

#include "base/random.h"
#include "device/stream.h"
#include "tensor/tensor.h"

namespace draftsmith::bench {

// Uniform numbers of one deviation, as many as make any repetition of them harmless, on the host.
template <typename E>
class RandomTile {
 public:
  explicit RandomTile(float deviation) : values_(std::size_t{1} << 22) {
    const Random random(1, RandomStream::noise);
    for (std::size_t i = 0; i < values_.size(); ++i) {
      values_[i] = static_cast<E>(static_cast<float>(random.uniform(i) - 0.5) * 3.4641f * deviation);
    }
  }

  // Queues the copies; entry i of the memory is entry i of the tile, which repeats. The tile must outlive them.
  void fill(const Stream& stream, Vector<E> memory) const {
    const auto tile = static_cast<std::int64_t>(values_.size());
    for (std::int64_t at = 0; at < memory.size; at += tile) {
      const std::int64_t count = std::min(tile, memory.size - at);
      copy_bytes(stream, memory.data + at, values_.data(), count * static_cast<std::int64_t>(sizeof(E)));
    }
  }
  void fill(const Stream& stream, Matrix<E> memory) const {
    fill(stream, Vector<E>{memory.data, memory.rows * memory.stride});
  }

 private:
  std::vector<E> values_;
};

// What norms begin with. Blocks.
template <typename E>
void fill_ones(const Stream& stream, Vector<E> memory) {
  const std::vector<E> ones(static_cast<std::size_t>(memory.size), E(1.0f));
  copy_bytes(stream, memory.data, ones.data(), memory.size * static_cast<std::int64_t>(sizeof(E)));
  synchronize(stream);
}

}  // namespace draftsmith::bench
