// Built instead of cuda/ without CUDA: there are no GPUs, opening one is an Error, and so nothing else is
// ever called.
#include <fmt/core.h>

#include "base/error.h"
#include "device/cuda/driver.h"

namespace draftsmith::cuda {

namespace {

constexpr const char* kAdvice =
    "this draftsmith was built without CUDA: install the CUDA toolkit (13.0 or newer) and build again";

[[noreturn]] void never() { check_failed("never()", "no GPU can have been opened", __FILE__, __LINE__); }

}  // namespace

GpuList list() { return {.gpus = {}, .none = kAdvice}; }
DeviceTraits open(DeviceName name) {
  throw Error(fmt::format("device {} cannot be used: {}, or use cpu:0, cpu:1, …", name.text(), kAdvice));
}
bool opened() { return false; }
void attach(int) { never(); }
MemoryInfo memory_info(int) { never(); }
std::byte* allocate(int, std::int64_t) { never(); }
bool reach(int, int) { never(); }
void free_device(int, std::byte*) { never(); }
std::byte* allocate_pinned(std::int64_t) { never(); }
void free_pinned(std::byte*) { never(); }
void copy(const Stream&, void*, const void*, std::int64_t) { never(); }
void fill(const Stream&, void*, std::uint8_t, std::int64_t) { never(); }
void synchronize(const Stream&) { never(); }
void* create_stream(int, StreamPriority) { never(); }
void destroy_stream(void*) { never(); }
void* create_event(int) { never(); }
void destroy_event(void*) { never(); }
void record(void*, const Stream&) { never(); }
void wait(void*, const Stream&) { never(); }
bool reached(void*) { never(); }
void synchronize_event(void*) { never(); }
double elapsed_ms(void*, void*) { never(); }
void* capture(const Stream&, const std::function<void()>&) { never(); }
void launch_graph(void*, const Stream&) { never(); }
void destroy_graph(void*) { never(); }

}  // namespace draftsmith::cuda
