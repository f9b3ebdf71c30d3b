// What the device floor asks of CUDA, without its headers: fulfilled by cuda/device.cpp, or by
// cuda_absent.cpp in a build without CUDA, where opening a GPU is an Error and nothing else is ever called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "device/device.h"
#include "device/stream.h"

namespace draftsmith::cuda {

GpuList list();
// Throws Error with advice when the card cannot be used.
DeviceTraits open(DeviceName name);
// Whether open() has succeeded in this process.
bool opened();
void attach(int index);

struct MemoryInfo {
  std::int64_t free_bytes = 0, total_bytes = 0;
};
MemoryInfo memory_info(int index);

// Null when the memory is not there. Cleared to 0.
std::byte* allocate(int index, std::int64_t bytes);
// Whether copies from one GPU's memory to another's go directly; makes them so.
bool reach(int from, int to);
void free_device(int index, std::byte* memory);
// Null when the memory is not there.
std::byte* allocate_pinned(std::int64_t bytes);
void free_pinned(std::byte* memory);

void copy(const Stream& stream, void* to, const void* from, std::int64_t bytes);
void fill(const Stream& stream, void* to, std::uint8_t value, std::int64_t bytes);
void synchronize(const Stream& stream);

void* create_stream(int index, StreamPriority priority);
void destroy_stream(void* stream);
void* create_event(int index);
void destroy_event(void* event);
void record(void* event, const Stream& stream);
void wait(void* event, const Stream& stream);
bool reached(void* event);
void synchronize_event(void* event);
double elapsed_ms(void* begin, void* end);

// What the body launches on the stream, ready to be launched. The stream is one of create_stream.
void* capture(const Stream& stream, const std::function<void()>& body);
void launch_graph(void* graph, const Stream& stream);
void destroy_graph(void* graph);

}  // namespace draftsmith::cuda
