// A view of a device's memory as the host reads and writes it: the view itself where the host addresses that
// memory, else memory of its own that upload() and download() copy. For set-up, evaluation and tests; copies
// of the run itself are queued with copy_bytes (device/stream.h).
#pragma once

#include <vector>

#include "device/memory.h"
#include "device/stream.h"
#include "tensor/tensor.h"

namespace draftsmith {

// Blocks until the device has it. For an E that copies as bytes.
template <typename E>
void upload(const Stream& stream, Vector<const E> from, Vector<E> to) {
  DRAFTSMITH_CHECK(from.size == to.size, "a copy keeps the size");
  copy_bytes(stream, to.data, from.data, to.size * static_cast<std::int64_t>(sizeof(E)));
  synchronize(stream);
}

// Blocks until the host has it.
template <typename E>
void download(const Stream& stream, Vector<const E> from, Vector<E> to) {
  upload(stream, from, to);
}

template <typename E>
class Staged {
 public:
  Staged(const Stream& stream, Vector<E> device) : stream_(stream), device_(device), host_(device) {
    if (host_addressable(*stream.device)) return;
    memory_.resize(static_cast<std::size_t>(device.size));
    host_.data = memory_.data();
  }
  Staged(const Stream& stream, Matrix<E> device)
      : Staged(stream, Vector<E>{device.data, device.rows * device.columns}) {
    DRAFTSMITH_CHECK(device.stride == device.columns, "the rows of a staged matrix lie side by side");
  }
  Staged(const Staged&) = delete;
  Staged& operator=(const Staged&) = delete;

  Vector<E> host() const { return host_; }
  void upload() const {
    if (host_.data != device_.data) draftsmith::upload<E>(stream_, host_, device_);
  }
  void download() const {
    if (host_.data != device_.data) draftsmith::download<E>(stream_, device_, host_);
  }

 private:
  const Stream stream_;
  const Vector<E> device_;
  Vector<E> host_;
  std::vector<E> memory_;
};

}  // namespace draftsmith
