// How much memory the process holds while a run is sealed, sampled now and then: what must not move, and by how much
// it did. The main thread owns it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "device/device.h"

namespace draftsmith {

struct ByteRange {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  std::int64_t most = 0;

  void add(std::int64_t bytes) {
    least = std::min(least, bytes);
    most = std::max(most, bytes);
  }
  bool sampled() const { return least <= most; }
  std::int64_t moved() const { return sampled() ? most - least : 0; }
};

// What the kernel says of this process.
struct ResidentMemory {
  std::int64_t anonymous_bytes = 0;  // heaps, stacks, arenas of CPU devices
  std::int64_t file_bytes = 0;       // mapped files, the program among them
};
ResidentMemory resident_memory();

struct MemoryReport {
  static constexpr std::int64_t kSettlingSteps = 20;                  // caches of libraries fill until then
  static constexpr std::int64_t kSlackBytes = std::int64_t{4} << 20;  // of anonymous memory

  struct Gpu {
    std::string name;
    ByteRange used;  // by the driver's count, all processes together
  };
  std::int64_t samples = 0;
  std::vector<Gpu> gpus;
  ByteRange pinned;
  ByteRange anonymous;  // from step kSettlingSteps on
  ByteRange files;      // shown, not judged: the kernel drops and reads pages as it likes

  // Not a byte on a GPU or of the pinned memory, and no more than the slack of anonymous memory.
  bool steady() const;
};

class MemoryWatch {
 public:
  // CPU devices among `devices` are passed over.
  explicit MemoryWatch(std::vector<Device> devices);

  // Between seal() and unseal(). `steps` of the run have been made.
  void sample(std::int64_t steps);

  const MemoryReport& report() const { return report_; }

 private:
  std::vector<Device> gpus_;
  MemoryReport report_;
};

}  // namespace draftsmith
