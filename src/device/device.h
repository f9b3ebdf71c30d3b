// A device: where one thread's arena lives and its kernels run. A logical CPU device is an arena and a thread
// of its own; its launches run at once in the calling thread, split over `threads` workers of that thread. A
// CUDA device is a GPU; its launches are queued and the calling thread goes on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace draftsmith {

enum class DeviceKind { cpu, cuda };

struct DeviceName {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;

  // "cpu:0", "cuda:3". Throws Error for anything else.
  static DeviceName parse(std::string_view text);
  std::string text() const;
  bool operator==(const DeviceName&) const = default;
};

// What a GPU is, read once when it is opened; a CPU device has none of it.
struct DeviceTraits {
  std::string card;  // "NVIDIA H200"
  int driver = 0;    // what the driver supports: 13000 for CUDA 13.0
  int compute = 0;   // compute capability: 90 for 9.0
  int multiprocessors = 0;
  std::int64_t memory_bytes = 0;  // of the card
};

// Which implementation of attention launches take. One that is asked for by name is taken or refused.
enum class AttentionChoice { automatic, hopper, portable, plain };

struct Device {
  DeviceName name;
  // About as many scalar operations as a launch must have before it is split: some ten microseconds, what waking the
  // workers takes. Smaller launches, like most of decoding a small model, run in the calling thread.
  std::int64_t work_worth_sharing = std::int64_t{1} << 20;
  int threads = 1;  // CPU workers a launch is split over; part of what fixes the bits of a run
  DeviceTraits traits;
  AttentionChoice attention = AttentionChoice::automatic;
  std::optional<std::int64_t> memory_limit_bytes;  // the most that a run may take of it; none: what is free
  std::string tuning_folder;  // where measured choices of kernels are kept; empty: nowhere
};

// Checks that the device can be used here and opens it. Throws Error with advice when it cannot (cuda without
// a build, a driver or a card for it). threads: 0 takes the machine's cores divided by `sharers`, at least 1.
Device open_device(DeviceName name, int threads, int sharers);

// Makes `device` the one that this thread launches on: sets how many workers its launches are split over and
// starts them once, so that no thread is created later. Called first thing by a thread that owns a device.
void attach_thread(const Device& device);

// The GPUs of this machine. `none` says in one line why there are none; a card that is there but cannot be
// used says why in `unusable`.
struct GpuList {
  struct Gpu {
    DeviceName name;
    DeviceTraits traits;
    std::string unusable;
  };
  std::vector<Gpu> gpus;
  std::string none;
};
GpuList list_gpus();

// Where a launch goes. Copied freely; must not outlive its device.
struct Stream {
  const Device* device = nullptr;
  void* native = nullptr;        // the driver's stream; null: the calling thread's own on this device
  std::byte* scratch = nullptr;  // what a launch may use until it ends; Launcher lends it
  std::int64_t scratch_bytes = 0;
};

}  // namespace draftsmith
