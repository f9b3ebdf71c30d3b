#include "kernels/cuda/cublaslt.h"

#include <map>
#include <mutex>

#include <dlfcn.h>
#include <fmt/core.h>

#include "base/error.h"
#include "device/seal.h"

namespace draftsmith::cuda {

namespace {

void* open_library() {
  // By its name first, as the system finds libraries; then where the toolkit was when this was built.
  for (const char* path : {"libcublasLt.so.13", DRAFTSMITH_CUDA_LIBRARY_FOLDER "/libcublasLt.so.13",
                           "/usr/local/cuda/lib64/libcublasLt.so.13"}) {
    if (void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  throw Error(
      fmt::format("products on a GPU need cuBLASLt 13 (libcublasLt.so.13), which was found neither by "
                  "the system nor in {} nor in /usr/local/cuda/lib64. Install the CUDA libraries, or "
                  "name their folder in LD_LIBRARY_PATH",
                  DRAFTSMITH_CUDA_LIBRARY_FOLDER));
}

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) throw Error(fmt::format("libcublasLt.so.13 lacks {}: install a newer one", name));
}

CublasLt load() {
  count_set_up(SetUp::handle);
  void* library = open_library();
  CublasLt functions{};
  find(library, "cublasLtGetVersion", functions.version);
  find(library, "cublasLtCreate", functions.create);
  find(library, "cublasLtMatmulDescCreate", functions.desc_create);
  find(library, "cublasLtMatmulDescDestroy", functions.desc_destroy);
  find(library, "cublasLtMatmulDescSetAttribute", functions.desc_set);
  find(library, "cublasLtMatrixLayoutCreate", functions.layout_create);
  find(library, "cublasLtMatrixLayoutDestroy", functions.layout_destroy);
  find(library, "cublasLtMatmulPreferenceCreate", functions.preference_create);
  find(library, "cublasLtMatmulPreferenceDestroy", functions.preference_destroy);
  find(library, "cublasLtMatmulPreferenceSetAttribute", functions.preference_set);
  find(library, "cublasLtMatmulAlgoGetHeuristic", functions.heuristic);
  find(library, "cublasLtMatmulAlgoCheck", functions.algo_check);
  find(library, "cublasLtMatmulAlgoConfigGetAttribute", functions.algo_get);
  find(library, "cublasLtMatmul", functions.matmul);
  return functions;
}

}  // namespace

const CublasLt& cublaslt() {
  static const CublasLt functions = load();
  return functions;
}

cublasLtHandle_t handle_of(const Device& device) {
  static std::mutex mutex;
  static std::map<int, cublasLtHandle_t> handles;
  const std::lock_guard lock(mutex);
  cublasLtHandle_t& handle = handles[device.name.index];
  if (handle == nullptr) {
    count_set_up(SetUp::handle);
    check(cublaslt().create(&handle), "making a handle");
  }
  return handle;
}

void check(cublasStatus_t status, const char* tried) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(fmt::format("{} failed in cuBLASLt with status {}", tried, static_cast<int>(status)));
}

}  // namespace draftsmith::cuda
