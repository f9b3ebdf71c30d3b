#include "device/device.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <thread>

#include <fmt/core.h>

#include "base/error.h"
#include "device/cpu/parallel.h"
#include "device/cuda/driver.h"
#include "device/seal.h"

namespace draftsmith {

DeviceName DeviceName::parse(std::string_view text) {
  DeviceName name;
  const auto colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  if (colon != std::string_view::npos && (kind == "cpu" || kind == "cuda")) {
    name.kind = kind == "cpu" ? DeviceKind::cpu : DeviceKind::cuda;
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data() + colon + 1, end, name.index);
    // Written in one way only: cpu:00 beside cpu:0 would be one device by two names.
    if (parsed.ec == std::errc() && parsed.ptr == end && name.index >= 0 && name.text() == text) return name;
  }
  throw Error(fmt::format(
      "device '{}' is not known; a device is written cpu:0, cpu:1, … or cuda:0, cuda:1, …", text));
}

std::string DeviceName::text() const {
  return fmt::format("{}:{}", kind == DeviceKind::cpu ? "cpu" : "cuda", index);
}

namespace {

// Where programs keep what they can make again, by the XDG base directory specification; empty: nowhere.
std::string cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') return std::string(cache) + "/draftsmith";
  const char* home = std::getenv("HOME");
  return home == nullptr || *home == '\0' ? "" : std::string(home) + "/.cache/draftsmith";
}

}  // namespace

Device open_device(DeviceName name, int threads, int sharers) {
  Device device{.name = name, .threads = threads};
  if (name.kind == DeviceKind::cuda) {
    device.traits = cuda::open(name);
    device.tuning_folder = cache_folder();
  }
  count_set_up(SetUp::handle);
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  if (threads == 0) device.threads = std::max(1, cores / std::max(1, sharers));
  return device;
}

void attach_thread(const Device& device) {
  if (device.name.kind == DeviceKind::cuda) {
    cuda::attach(device.name.index);
  } else {
    start_workers(device.threads);
  }
}

GpuList list_gpus() { return cuda::list(); }

}  // namespace draftsmith
