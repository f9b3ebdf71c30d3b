#include "device/device.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <fmt/core.h>
#include <omp.h>

#include "base/arithmetic.h"
#include "base/error.h"
#include "base/log.h"
#include "device/memory.h"
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
    if (parsed.ec == std::errc() && parsed.ptr == end && name.index >= 0) return name;
  }
  throw Error(fmt::format(
      "device '{}' is not known; a device is written cpu:0, cpu:1, … or cuda:0, cuda:1, …", text));
}

std::string DeviceName::text() const {
  return fmt::format("{}:{}", kind == DeviceKind::cpu ? "cpu" : "cuda", index);
}

Device open_device(DeviceName name, int threads, int sharers) {
  if (name.kind == DeviceKind::cuda) {
    throw Error(
        fmt::format("device {} cannot be used: this draftsmith was built without CUDA. Use cpu:0, cpu:1, …",
                    name.text()));
  }
  count_set_up(SetUp::handle);
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  if (threads == 0) threads = std::max(1, cores / std::max(1, sharers));
  return {.name = name, .threads = threads};
}

void attach_thread(const Device& device) {
  set_log_device(device.name.text());
  omp_set_dynamic(0);
  omp_set_num_threads(device.threads);
  if (device.threads == 1) return;
#pragma omp parallel
  { std::this_thread::yield(); }  // the workers are created here, once
}

void Buffer::Free::operator()(std::byte* memory) const { std::free(memory); }

Buffer Buffer::allocate(std::int64_t bytes, const char* where) {
  const std::int64_t rounded = round_up(std::max<std::int64_t>(bytes, 1), kMemoryAlignment);
  void* memory = std::aligned_alloc(kMemoryAlignment, static_cast<std::size_t>(rounded));
  if (memory == nullptr) {
    throw Error(
        fmt::format("{:.2f} GiB could not be allocated on {}. Lower train.context_tokens or train.blocks; "
                    "`draftsmith plan` shows what takes how much",
                    static_cast<double>(bytes) / (1 << 30), where));
  }
  std::memset(memory, 0, static_cast<std::size_t>(rounded));  // touches every page now rather than in the run
  return Buffer(static_cast<std::byte*>(memory), bytes);
}

Buffer Buffer::on_device(const Device& device, std::int64_t bytes) {
  count_set_up(SetUp::arena);
  return allocate(bytes, device.name.text().c_str());
}

Buffer Buffer::pinned(std::int64_t bytes) {
  count_set_up(SetUp::pinned_pool);
  return allocate(bytes, "the host");
}

}  // namespace draftsmith
