// Runs operations on the device under test and waits for them.
#pragma once

#include "base/heap.h"
#include "device/memory.h"
#include "device/stream.h"
#include "kernels/launcher.h"
#include "kernels/tables.h"

namespace draftsmith::test {

// A launcher that has measured one launch and holds the scratch for it.
template <typename T>
class PreparedLaunch {
 public:
  template <typename Arguments>
  PreparedLaunch(const Device& device, const Arguments& arguments) : launch_(device, kernels_of<T>(device)) {
    launch_.set_mode(LaunchMode::measure);
    launch_(arguments);
    launch_.set_mode(LaunchMode::run);
    scratch_ = Buffer::on_device(device, launch_.library().scratch_bytes());
    launch_.library().set_scratch({scratch_.data(), scratch_.bytes()});
  }

  // Launches and waits; what it takes of the heap is counted.
  template <typename Arguments>
  void operator()(const Arguments& arguments) {
    const NoHeapRegion no_heap;
    launch_(arguments);
    synchronize(launch_.stream());
  }

 private:
  Launcher<T> launch_;
  Buffer scratch_;
};

template <typename T, typename Arguments>
void run_on(const Device& device, const Arguments& arguments) {
  PreparedLaunch<T>(device, arguments)(arguments);
}

}  // namespace draftsmith::test
