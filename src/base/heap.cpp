#include "base/heap.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace draftsmith {
namespace {

thread_local int t_region_depth = 0;
thread_local int t_library_depth = 0;
std::atomic<std::int64_t> g_ours{
    0};  // the replaced operator new can be given nothing, so its counters are global
std::atomic<std::int64_t> g_library{0};

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (t_region_depth > 0) (t_library_depth > 0 ? g_library : g_ours).fetch_add(1, std::memory_order_relaxed);
  if (bytes == 0) bytes = 1;
  void* memory = alignment <= alignof(std::max_align_t)
                     ? std::malloc(bytes)
                     : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

NoHeapRegion::NoHeapRegion() { ++t_region_depth; }
NoHeapRegion::~NoHeapRegion() { --t_region_depth; }
LibraryCall::LibraryCall() { ++t_library_depth; }
LibraryCall::~LibraryCall() { --t_library_depth; }

HeapCounts heap_counts() { return {.ours = g_ours.load(), .library = g_library.load(), .watched = true}; }

}  // namespace draftsmith

// Replaced for the whole process. The nothrow and array forms of the standard library call these.
void* operator new(std::size_t bytes) { return draftsmith::allocate(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return draftsmith::allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
