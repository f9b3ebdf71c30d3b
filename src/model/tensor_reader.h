// Reads the tensors of a folder by name into views of a device's memory, converted to T by rounding to nearest even. Throws Error
// naming file and tensor for a missing tensor, a wrong shape or type, and values that are not finite. Without a stream it
// reads the headers alone and writes nothing: views of a carver that counts will do.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "data/tensor_store.h"
#include "device/device.h"
#include "model/tensor_upload.h"
#include "tensor/tensor.h"

namespace draftsmith {

// A view of the store. T is float or bf16.
template <typename T>
class TensorReader {
 public:
  TensorReader(const Stream& stream, const TensorStore& store)
      : stream_(stream), upload_(std::make_unique<TensorUpload<T>>(stream)), store_(store) {}
  explicit TensorReader(const TensorStore& store) : store_(store) {}

  void matrix(const std::string& name, Matrix<T> out) const;  // rows side by side
  void vector(const std::string& name, Vector<T> out) const;
  // A tensor of any shape, in file order.
  void read(const std::string& name, std::span<const std::int64_t> expected_shape, Vector<T> out) const;

  // A tensor that the configuration says the model has not would be dropped silently.
  void expect_absent(const std::string& name) const;

  bool reads_values() const { return stream_.has_value(); }
  const Stream& stream() const { return *stream_; }
  const TensorStore& store() const { return store_; }

 private:
  const std::optional<Stream> stream_;
  const std::unique_ptr<TensorUpload<T>> upload_;  // with a stream
  const TensorStore& store_;
};

}  // namespace draftsmith
