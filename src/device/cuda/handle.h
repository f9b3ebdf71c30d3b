// Return codes and streams of CUDA, for the sources below a cuda/ folder.
#pragma once

#include <cuda_runtime_api.h>

#include "base/error.h"
#include "device/device.h"

namespace draftsmith::cuda {

// Throws Error naming what was tried. Errors of asynchronous work surface at a later call.
void throw_failed(cudaError_t error, const char* tried);
inline void check(cudaError_t error, const char* tried) {
  if (error != cudaSuccess) throw_failed(error, tried);
}

// Makes the stream's device current in this thread and returns its native stream. A stream without one is the
// calling thread's own, which waits for no other and no other for it.
inline cudaStream_t native(const Stream& stream) {
  check(cudaSetDevice(stream.device->name.index), "choosing a GPU");
  return stream.native == nullptr ? cudaStreamPerThread : static_cast<cudaStream_t>(stream.native);
}

}  // namespace draftsmith::cuda
