// Moving bytes between the host and a device, and waiting for a device. Work on one stream runs in order. On
// CPU devices everything here runs at once; on a GPU only what says so blocks.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "device/device.h"

namespace draftsmith {

// Queues a copy in any direction between the stream's device and the host. Host memory must stay as it is
// until the stream has passed the copy; from or to memory that is not pinned the call may block.
void copy_bytes(const Stream& stream, void* to, const void* from, std::int64_t bytes);
// Queues setting every byte to `value`.
void fill_bytes(const Stream& stream, void* to, std::uint8_t value, std::int64_t bytes);
// Blocks until everything queued on the stream has run. Throws Error when the device has failed.
void synchronize(const Stream& stream);

// On a GPU, thread blocks of streams of high priority start first where both wait for a processor.
enum class StreamPriority { normal, high };

// A stream beside the calling thread's own, for copies that overlap with launches.
class OwnStream {
 public:
  explicit OwnStream(const Device& device, StreamPriority priority = StreamPriority::normal);
  Stream view() const { return {.device = device_, .native = native_.get()}; }

 private:
  struct Destroy {
    void operator()(void* native) const;
  };
  const Device* device_;
  std::unique_ptr<void, Destroy> native_;  // null on CPU devices
};

// A point on a stream that other streams and the host wait for. Used by one thread at a time.
class Event {
 public:
  explicit Event(const Device& device);

  void record(const Stream& stream);
  // The stream waits; the calling thread does not.
  void wait(const Stream& stream) const;
  bool reached() const;
  // Blocks until the event is reached.
  void synchronize() const;
  // Between two reached events of one device.
  static double elapsed_ms(const Event& begin, const Event& end);

 private:
  struct Destroy {
    void operator()(void* native) const;
  };
  std::unique_ptr<void, Destroy> native_;  // null on CPU devices
  std::chrono::steady_clock::time_point time_;
};

}  // namespace draftsmith
