#include "generate/kv_cache.h"

#include <algorithm>

namespace draftsmith {

template <typename T>
KvCache<T>::KvCache(Carver& carver, const TargetShape& target, const DrafterShape& drafter,
                    const CacheRows& rows)
    : capacity_(rows.capacity) {
  for (std::int64_t layer = 0; layer < target.layers; ++layer) {
    target_.keys.push_back(carver.matrix<T>(capacity_, target.kv_width()));
    target_.values.push_back(carver.matrix<T>(capacity_, target.kv_width()));
  }
  context_.key_value = carver.matrix<T>(capacity_, drafter.layers * 2 * drafter.kv_width());
  context_.keys = carver.matrix<T>(capacity_, drafter.layers * drafter.kv_width());
  context_.key_inverse_rms.resize(static_cast<std::size_t>(drafter.layers));
  projected_ = carver.matrix<T>(rows.most_added, drafter.width);
  normed_ = carver.matrix<T>(rows.most_added, drafter.width);
}

template <typename T>
void KvCache<T>::extend_target(std::int64_t rows) {
  DRAFTSMITH_CHECK(rows >= 0 && length_ + rows <= capacity_, "the sequence fits its cache");
  length_ += rows;
}

template <typename T>
void KvCache<T>::extend_both(std::int64_t rows) {
  DRAFTSMITH_CHECK(context_length_ == length_, "both models know the same positions");
  extend_target(rows);
  context_length_ = length_;
}

template <typename T>
void KvCache<T>::rewind(std::int64_t length) {
  DRAFTSMITH_CHECK(length >= 0 && length <= length_, "rolling back does not move forward");
  length_ = length;
  context_length_ = std::min(context_length_, length);
}

template <typename T>
DrafterContext<T> KvCache<T>::context_rows(std::int64_t first, std::int64_t rows) const {
  return {.projected = projected_.slice_rows(0, rows),
          .normed = normed_.slice_rows(0, rows),
          .key_value = context_.key_value.slice_rows(first, rows),
          .keys = context_.keys.slice_rows(first, rows),
          .key_inverse_rms = context_.key_inverse_rms,
          .plans = {}};
}

template class KvCache<float>;
template class KvCache<bf16>;

}  // namespace draftsmith
