#include "metrics/memory_watch.h"

#include <array>
#include <charconv>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"
#include "device/memory.h"

namespace draftsmith {
namespace {

// The number of kibibytes in the line that begins with `name`.
std::int64_t status_bytes(std::string_view text, std::string_view name) {
  const std::size_t line = text.find(name);
  const std::size_t digits = line == text.npos ? line : text.find_first_of("0123456789", line + name.size());
  std::int64_t kibibytes = 0;
  if (digits == text.npos ||
      std::from_chars(text.data() + digits, text.data() + text.size(), kibibytes).ec != std::errc()) {
    throw Error("/proc/self/status: expected a line " + std::string(name) +
                " with a number of kB, found none; is /proc mounted?");
  }
  return kibibytes * 1024;
}

}  // namespace

// Takes no heap, so that looking does not change what is seen.
ResidentMemory resident_memory() {
  std::array<char, 8192> buffer;
  const int descriptor = ::open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  const ssize_t length = descriptor < 0 ? 0 : ::read(descriptor, buffer.data(), buffer.size());
  if (descriptor >= 0) ::close(descriptor);
  const std::string_view text(buffer.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  return {.anonymous_bytes = status_bytes(text, "RssAnon:"), .file_bytes = status_bytes(text, "RssFile:")};
}

bool MemoryReport::steady() const {
  const auto moved = [](const Gpu& gpu) { return gpu.used.moved() != 0; };
  return std::none_of(gpus.begin(), gpus.end(), moved) && pinned.moved() == 0 &&
         anonymous.moved() <= kSlackBytes;
}

MemoryWatch::MemoryWatch(std::vector<Device> devices) {
  for (Device& device : devices) {
    if (device.name.kind != DeviceKind::cuda) continue;
    report_.gpus.push_back({.name = device.name.text()});
    gpus_.push_back(std::move(device));
  }
}

void MemoryWatch::sample(std::int64_t steps) {
  ++report_.samples;
  for (std::size_t gpu = 0; gpu < gpus_.size(); ++gpu) report_.gpus[gpu].used.add(bytes_in_use(gpus_[gpu]));
  report_.pinned.add(pinned_bytes());
  const ResidentMemory resident = resident_memory();
  if (steps >= MemoryReport::kSettlingSteps) report_.anonymous.add(resident.anonymous_bytes);
  report_.files.add(resident.file_bytes);
}

}  // namespace draftsmith
