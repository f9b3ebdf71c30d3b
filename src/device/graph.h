// A fixed sequence of launches, recorded once and replayed many times: on a GPU as one submission, which costs the
// host a few microseconds however many launches there are. Memory, shapes and grids are those of the recording; what
// the memory holds is read at every replay. On a CPU device the body is kept and runs at each replay.
#pragma once

#include <functional>
#include <memory>

#include "device/device.h"

namespace draftsmith {

class Graph {
 public:
  Graph() = default;

  // Records what `body` launches on `stream`, and nothing that it does on the host: it may not wait for the device,
  // and every kernel that it launches has been launched before (a first launch loads the kernel, which cannot be
  // recorded). On a GPU nothing runs; on a CPU device the body is not even called. Before seal(). Throws what the body
  // throws, and Error when the driver refuses.
  static Graph capture(const Stream& stream, std::function<void()> body);

  // Queues the recorded launches on a stream of the same device; any thread, one at a time. Takes no heap.
  void replay(const Stream& stream) const;

 private:
  struct Destroy {
    void operator()(void* native) const;
  };
  std::function<void()> body_;             // of a CPU device
  std::unique_ptr<void, Destroy> native_;  // null on CPU devices
};

}  // namespace draftsmith
