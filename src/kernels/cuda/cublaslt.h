// cuBLASLt, loaded when the first GPU prepares a product. The program is not linked to it, so that it also
// starts on machines without CUDA; linking it statically would add half a gigabyte.
#pragma once

#include <memory>
#include <string>

#include <cublasLt.h>

#include "device/device.h"

namespace draftsmith::cuda {

// The functions used, under their own names without the prefix.
struct CublasLt {
  decltype(&::cublasLtGetVersion) version;
  decltype(&::cublasLtCreate) create;
  decltype(&::cublasLtMatmulDescCreate) desc_create;
  decltype(&::cublasLtMatmulDescDestroy) desc_destroy;
  decltype(&::cublasLtMatmulDescSetAttribute) desc_set;
  decltype(&::cublasLtMatrixLayoutCreate) layout_create;
  decltype(&::cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&::cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&::cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&::cublasLtMatmulPreferenceSetAttribute) preference_set;
  decltype(&::cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&::cublasLtMatmulAlgoCheck) algo_check;
  decltype(&::cublasLtMatmulAlgoConfigGetAttribute) algo_get;
  decltype(&::cublasLtMatmul) matmul;
};

// Loads it the first time. Throws Error saying where it was sought.
const CublasLt& cublaslt();

// The GPU's handle: made, while the GPU is the calling thread's, when its first product is prepared, and kept
// until the process ends. Any thread.
cublasLtHandle_t handle_of(const Device& device);

// Throws Error naming what was tried.
void check(cublasStatus_t status, const char* tried);

struct CublasLtDestroy {
  void operator()(cublasLtMatmulDescOpaque_t* desc) const { cublaslt().desc_destroy(desc); }
  void operator()(cublasLtMatrixLayoutOpaque_t* layout) const { cublaslt().layout_destroy(layout); }
  void operator()(cublasLtMatmulPreferenceOpaque_t* preference) const {
    cublaslt().preference_destroy(preference);
  }
};
template <typename T>
using CublasLtHandle = std::unique_ptr<T, CublasLtDestroy>;

}  // namespace draftsmith::cuda
