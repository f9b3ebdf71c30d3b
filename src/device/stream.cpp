#include "device/stream.h"

#include <cstring>

#include "device/cuda/driver.h"
#include "device/seal.h"

namespace draftsmith {

namespace {

bool on_gpu(const Stream& stream) { return stream.device->name.kind == DeviceKind::cuda; }

}  // namespace

void copy_bytes(const Stream& stream, void* to, const void* from, std::int64_t bytes) {
  if (bytes == 0) return;
  if (on_gpu(stream)) return cuda::copy(stream, to, from, bytes);
  if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

void fill_bytes(const Stream& stream, void* to, std::uint8_t value, std::int64_t bytes) {
  if (bytes == 0) return;
  if (on_gpu(stream)) return cuda::fill(stream, to, value, bytes);
  std::memset(to, value, static_cast<std::size_t>(bytes));
}

void synchronize(const Stream& stream) {
  if (on_gpu(stream)) cuda::synchronize(stream);
}

OwnStream::OwnStream(const Device& device, StreamPriority priority) : device_(&device) {
  if (device.name.kind != DeviceKind::cuda) return;
  count_set_up(SetUp::handle);
  native_.reset(cuda::create_stream(device.name.index, priority));
}

void OwnStream::Destroy::operator()(void* native) const { cuda::destroy_stream(native); }

Event::Event(const Device& device) {
  if (device.name.kind != DeviceKind::cuda) return;
  count_set_up(SetUp::handle);
  native_.reset(cuda::create_event(device.name.index));
}

void Event::Destroy::operator()(void* native) const { cuda::destroy_event(native); }

void Event::record(const Stream& stream) {
  if (native_) return cuda::record(native_.get(), stream);
  time_ = std::chrono::steady_clock::now();
}

void Event::wait(const Stream& stream) const {
  if (native_) cuda::wait(native_.get(), stream);
}

bool Event::reached() const { return !native_ || cuda::reached(native_.get()); }

void Event::synchronize() const {
  if (native_) cuda::synchronize_event(native_.get());
}

double Event::elapsed_ms(const Event& begin, const Event& end) {
  if (begin.native_) return cuda::elapsed_ms(begin.native_.get(), end.native_.get());
  return std::chrono::duration<double, std::milli>(end.time_ - begin.time_).count();
}

}  // namespace draftsmith
