#include "model/tensor_reader.h"

#include <fmt/core.h>

#include "base/error.h"

namespace draftsmith {

template <typename T>
void TensorReader<T>::matrix(const std::string& name, Matrix<T> out) const {
  DRAFTSMITH_CHECK(out.stride == out.columns, "weights lie row by row");
  const std::int64_t expected[] = {out.rows, out.columns};
  read(name, expected, {out.data, out.rows * out.columns});
}

template <typename T>
void TensorReader<T>::vector(const std::string& name, Vector<T> out) const {
  const std::int64_t expected[] = {out.size};
  read(name, expected, out);
}

template <typename T>
void TensorReader<T>::read(const std::string& name, std::span<const std::int64_t> expected_shape,
                           Vector<T> out) const {
  const TensorEntry& entry = store_.at(name);
  check_shape(entry, expected_shape);
  check_floating(entry);
  if (!reads_values()) return;
  (*upload_)(entry, out);
}

template <typename T>
void TensorReader<T>::expect_absent(const std::string& name) const {
  const TensorEntry* entry = store_.find(name);
  if (entry == nullptr) return;
  throw Error(
      fmt::format("{} is there, but config.json describes a model without it; check model_type and "
                  "attention_bias in config.json",
                  entry->label));
}

template class TensorReader<float>;
template class TensorReader<bf16>;

}  // namespace draftsmith
