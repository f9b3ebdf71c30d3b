// Keys and values of both models for one sequence on one device. Rows are positions of the sequence. The
// target keeps one pair of matrices per layer; the drafter keeps what its context pass made of the target's
// features. Rolling back is moving a length: rows behind it are never seen and are overwritten in place.
#pragma once

#include <cstdint>

#include "model/drafter.h"
#include "model/target.h"

namespace draftsmith {

struct CacheRows {
  std::int64_t capacity = 0;    // positions of the longest sequence, the last block and padding among them
  std::int64_t most_added = 0;  // of one context pass
};

// A view of memory that the carver's owner keeps. Owned by the device's thread.
template <typename T>
class KvCache {
 public:
  KvCache() = default;
  KvCache(Carver& carver, const TargetShape& target, const DrafterShape& drafter, const CacheRows& rows);

  std::int64_t capacity() const { return capacity_; }
  // Positions whose target rows are valid.
  std::int64_t length() const { return length_; }
  // Positions whose context rows are valid; fewer than length() after plain decoding.
  std::int64_t context_length() const { return context_length_; }

  // Rows written behind the valid ones become valid: of the target, or of both models.
  void extend_target(std::int64_t rows);
  void extend_both(std::int64_t rows);
  // Forgets every position from `length` on.
  void rewind(std::int64_t length);

  const KeyValueStore<T>& target() const { return target_; }
  // All context rows, as the drafter's blocks read them.
  const DrafterContext<T>& context() const { return context_; }
  // Context rows first .. first + rows - 1, for the context pass to write.
  DrafterContext<T> context_rows(std::int64_t first, std::int64_t rows) const;

 private:
  // Constant after construction.
  std::int64_t capacity_ = 0;
  KeyValueStore<T> target_;
  DrafterContext<T> context_;     // keys and values of every row; nothing that only a backward pass reads
  Matrix<T> projected_, normed_;  // [most_added, width]: scratch of a context pass
  // Of the sequence.
  std::int64_t length_ = 0;
  std::int64_t context_length_ = 0;
};

}  // namespace draftsmith
