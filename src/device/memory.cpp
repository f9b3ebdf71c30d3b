#include "device/memory.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>

#include <fmt/core.h>
#include <sys/mman.h>

#include "base/all_cores.h"
#include "base/arithmetic.h"
#include "base/error.h"
#include "device/control_group.h"
#include "device/cuda/driver.h"
#include "device/seal.h"

namespace draftsmith {

namespace {

// Asked for a process's whole pool, so it belongs to no object.
std::atomic<std::int64_t> g_pinned_bytes{0};

// Of a GPU: its kernels' code, graphs and what libraries allocate.
constexpr std::int64_t kBesideTheArena = std::int64_t{512} << 20;

std::int64_t rounded(std::int64_t bytes) {
  return round_up(std::max<std::int64_t>(bytes, 1), kMemoryAlignment);
}

// Large memory asks for huge pages: weights that are read once a token come from memory about a quarter faster when few
// addresses are translated. Advice that the system may ignore.
std::byte* allocate_pages(std::int64_t bytes) {
  constexpr std::int64_t kHugePage = std::int64_t{2} << 20;
  const bool large = bytes >= kHugePage;
  const std::int64_t alignment = large ? kHugePage : kMemoryAlignment;
  const auto size = static_cast<std::size_t>(round_up(bytes, alignment));
  void* memory = std::aligned_alloc(static_cast<std::size_t>(alignment), size);
  if (large && memory != nullptr) ::madvise(memory, size, MADV_HUGEPAGE);
  return static_cast<std::byte*>(memory);
}

// Touches every page now rather than in the run, on all cores: a system that has to find and clear the pages takes a second
// and more a GiB on one.
void clear(std::byte* memory, std::int64_t bytes) {
  constexpr std::int64_t kLeast = std::int64_t{16} << 20;
  on_all_cores(bytes, kLeast, [memory](std::int64_t begin, std::int64_t end) {
    std::memset(memory + begin, 0, static_cast<std::size_t>(end - begin));
  });
}

double gibibytes(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

constexpr std::string_view kHostAdvice = "Raise a limit of memory (ulimit -v, a control group), or take less";
constexpr std::string_view kCardAdvice = "End what else uses the card, or take less";

[[noreturn]] void refuse(std::int64_t bytes, const std::string& where, std::string_view advice) {
  throw Error(fmt::format(
      "{:.2f} GiB could not be allocated on {}. {}: of a run lower train.context_tokens or train.blocks "
      "(`draftsmith plan` shows what takes how much), of eval and generate --max-new-tokens",
      gibibytes(bytes), where, advice));
}

}  // namespace

bool host_addressable(const Device& device) { return device.name.kind == DeviceKind::cpu; }

std::int64_t available_bytes(const Device& device) {
  const std::int64_t free_bytes = device.name.kind == DeviceKind::cuda
                                      ? cuda::memory_info(device.name.index).free_bytes - kBesideTheArena
                                      : available_host_bytes();
  return std::min(free_bytes, device.memory_limit_bytes.value_or(free_bytes));
}

std::int64_t available_host_bytes() {
  constexpr std::int64_t kNobodyKnows = std::numeric_limits<std::int64_t>::max();
  std::int64_t bytes = control_group_bytes_left().value_or(kNobodyKnows);
  std::ifstream stream("/proc/meminfo");
  for (std::string name; stream >> name; stream.ignore(std::numeric_limits<std::streamsize>::max(), '\n')) {
    std::int64_t kibibytes = 0;
    if (name == "MemAvailable:" && stream >> kibibytes) bytes = std::min(bytes, kibibytes * 1024);
  }
  return bytes;
}

void Buffer::Free::operator()(std::byte* memory) const {
  g_pinned_bytes -= pinned_bytes;
  switch (where) {
    case Where::host:
      return std::free(memory);
    case Where::pinned:
      return cuda::free_pinned(memory);
    case Where::gpu:
      return cuda::free_device(device, memory);
  }
}

Buffer Buffer::on_device(const Device& device, std::int64_t bytes) {
  count_set_up(SetUp::arena);
  const std::int64_t size = rounded(bytes);
  if (device.name.kind == DeviceKind::cuda) {
    std::byte* memory = cuda::allocate(device.name.index, size);
    if (memory == nullptr) {
      const cuda::MemoryInfo info = cuda::memory_info(device.name.index);
      refuse(bytes,
             fmt::format("{}, where {:.2f} of {:.2f} GiB are free", device.name.text(),
                         gibibytes(info.free_bytes), gibibytes(info.total_bytes)),
             kCardAdvice);
    }
    return Buffer(memory, bytes, {Where::gpu, device.name.index, 0});
  }
  std::byte* memory = allocate_pages(size);
  if (memory == nullptr) refuse(bytes, device.name.text(), kHostAdvice);
  clear(memory, size);
  return Buffer(memory, bytes, {Where::host, 0, 0});
}

Buffer Buffer::pinned(std::int64_t bytes) {
  count_set_up(SetUp::pinned_pool);
  const std::int64_t size = rounded(bytes);
  const Where where = cuda::opened() ? Where::pinned : Where::host;
  std::byte* const memory = where == Where::pinned ? cuda::allocate_pinned(size) : allocate_pages(size);
  if (memory == nullptr)
    refuse(bytes, where == Where::pinned ? "the host as pinned memory" : "the host", kHostAdvice);
  clear(memory, size);
  g_pinned_bytes += size;
  return Buffer(memory, bytes, {where, 0, size});
}

bool reaches(const Device& from, const Device& to) {
  if (from.name.kind != to.name.kind) return false;
  return from.name.kind == DeviceKind::cpu || from.name == to.name ||
         cuda::reach(from.name.index, to.name.index);
}

std::int64_t bytes_in_use(const Device& device) {
  if (device.name.kind != DeviceKind::cuda) return 0;
  const cuda::MemoryInfo info = cuda::memory_info(device.name.index);
  return info.total_bytes - info.free_bytes;
}

std::int64_t pinned_bytes() { return g_pinned_bytes; }

}  // namespace draftsmith
