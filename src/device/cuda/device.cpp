// GPUs through the CUDA runtime, linked statically: without a driver the first call fails with a code, and
// the program goes on with CPU devices.
#include <atomic>

#include <fmt/core.h>

#include "device/cuda/driver.h"
#include "device/cuda/handle.h"
#include "device/gpu_list.h"

namespace draftsmith::cuda {

namespace {

// One fact of the process, set once and never taken back.
std::atomic<bool> g_opened{false};

DriverAnswer::Card ask_card(int index, int driver) {
  cudaDeviceProp properties{};
  const cudaError_t error = cudaGetDeviceProperties(&properties, index);
  if (error != cudaSuccess) return {.traits = {}, .failure = cudaGetErrorString(error)};
  return {.traits = {.card = properties.name,
                     .driver = driver,
                     .compute = properties.major * 10 + properties.minor,
                     .multiprocessors = properties.multiProcessorCount,
                     .memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem)},
          .failure = ""};
}

DriverAnswer ask_driver() {
  DriverAnswer answer{.needed = CUDART_VERSION};
  if (cudaDriverGetVersion(&answer.driver) != cudaSuccess) answer.driver = 0;
  if (answer.driver == 0) return answer;
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  answer.too_old = error == cudaErrorInsufficientDriver;
  if (error != cudaSuccess && error != cudaErrorNoDevice) answer.failure = cudaGetErrorString(error);
  if (error != cudaSuccess) return answer;
  for (int index = 0; index < count; ++index) answer.cards.push_back(ask_card(index, answer.driver));
  return answer;
}

}  // namespace

void throw_failed(cudaError_t error, const char* tried) {
  throw Error(fmt::format("{} failed: {} ({})", tried, cudaGetErrorString(error), cudaGetErrorName(error)));
}

GpuList list() { return judge_gpus(ask_driver()); }

DeviceTraits open(DeviceName name) {
  const GpuList all = list();
  const GpuList::Gpu& gpu = usable_gpu(all, name);
  check(cudaSetDevice(name.index), "opening a GPU");
  check(cudaFree(nullptr), "opening a GPU");  // makes its context now
  g_opened = true;
  return gpu.traits;
}

bool opened() { return g_opened; }

void attach(int index) { check(cudaSetDevice(index), "choosing a GPU"); }

MemoryInfo memory_info(int index) {
  attach(index);
  std::size_t free_bytes = 0, total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes), "asking for the free memory of a GPU");
  return {.free_bytes = static_cast<std::int64_t>(free_bytes),
          .total_bytes = static_cast<std::int64_t>(total_bytes)};
}

std::byte* allocate(int index, std::int64_t bytes) {
  attach(index);
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, static_cast<std::size_t>(bytes));
  if (error == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // it is answered by the caller, not by a later check
    return nullptr;
  }
  check(error, "allocating memory of a GPU");
  check(cudaMemsetAsync(memory, 0, static_cast<std::size_t>(bytes), cudaStreamPerThread),
        "clearing memory of a GPU");
  check(cudaStreamSynchronize(cudaStreamPerThread), "clearing memory of a GPU");
  return static_cast<std::byte*>(memory);
}

bool reach(int from, int to) {
  int possible = 0;
  check(cudaDeviceCanAccessPeer(&possible, from, to), "asking which GPUs reach each other");
  if (possible == 0) return false;
  attach(from);
  const cudaError_t error = cudaDeviceEnablePeerAccess(to, 0);
  if (error == cudaErrorPeerAccessAlreadyEnabled) {
    static_cast<void>(cudaGetLastError());  // it is as wanted
    return true;
  }
  check(error, "letting a GPU reach another");
  return true;
}

// Nothing can be done about a failure while memory is given back.
void free_device(int index, std::byte* memory) {
  static_cast<void>(cudaSetDevice(index));
  static_cast<void>(cudaFree(memory));
}

std::byte* allocate_pinned(std::int64_t bytes) {
  void* memory = nullptr;
  const cudaError_t error = cudaHostAlloc(&memory, static_cast<std::size_t>(bytes), cudaHostAllocPortable);
  if (error == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    return nullptr;
  }
  check(error, "pinning host memory");
  return static_cast<std::byte*>(memory);
}

void free_pinned(std::byte* memory) { static_cast<void>(cudaFreeHost(memory)); }

void copy(const Stream& stream, void* to, const void* from, std::int64_t bytes) {
  check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, native(stream)),
        "copying from or to a GPU");
}

void fill(const Stream& stream, void* to, std::uint8_t value, std::int64_t bytes) {
  check(cudaMemsetAsync(to, value, static_cast<std::size_t>(bytes), native(stream)),
        "filling memory of a GPU");
}

void synchronize(const Stream& stream) { check(cudaStreamSynchronize(native(stream)), "work on a GPU"); }

void* create_stream(int index, StreamPriority priority) {
  attach(index);
  int lowest = 0, highest = 0;
  check(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "asking for the priorities of streams");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                     priority == StreamPriority::high ? highest : lowest),
        "making a stream");
  return stream;
}

void destroy_stream(void* stream) { static_cast<void>(cudaStreamDestroy(static_cast<cudaStream_t>(stream))); }

void* create_event(int index) {
  attach(index);
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "making an event");
  return event;
}

void destroy_event(void* event) { static_cast<void>(cudaEventDestroy(static_cast<cudaEvent_t>(event))); }

void record(void* event, const Stream& stream) {
  check(cudaEventRecord(static_cast<cudaEvent_t>(event), native(stream)), "recording an event");
}

void wait(void* event, const Stream& stream) {
  check(cudaStreamWaitEvent(native(stream), static_cast<cudaEvent_t>(event)), "waiting for an event");
}

bool reached(void* event) {
  const cudaError_t error = cudaEventQuery(static_cast<cudaEvent_t>(event));
  if (error == cudaErrorNotReady) return false;
  check(error, "work on a GPU");
  return true;
}

void synchronize_event(void* event) {
  check(cudaEventSynchronize(static_cast<cudaEvent_t>(event)), "work on a GPU");
}

double elapsed_ms(void* begin, void* end) {
  float ms = 0;
  check(cudaEventElapsedTime(&ms, static_cast<cudaEvent_t>(begin), static_cast<cudaEvent_t>(end)),
        "reading the time between events");
  return ms;
}

}  // namespace draftsmith::cuda
