#include "fabric/cuda/nccl.h"

#include <cstdlib>

#include <dlfcn.h>
#include <fmt/core.h>

#include "base/error.h"
#include "device/seal.h"

namespace draftsmith::cuda {

namespace {

void* open_library() {
  // By its name first, as the system finds libraries; then where the toolkit was when this was built.
  for (const char* path : {"libnccl.so.2", DRAFTSMITH_CUDA_LIBRARY_FOLDER "/libnccl.so.2",
                           "/usr/local/cuda/lib64/libnccl.so.2"}) {
    if (void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL)) return library;
  }
  throw Error(
      fmt::format("several drafters on GPUs exchange gradients through NCCL (libnccl.so.2), which was found "
                  "neither by the system nor in {} nor in /usr/local/cuda/lib64. Install it (libnccl2, or "
                  "the pip package nvidia-nccl-cu13), or name its folder in LD_LIBRARY_PATH",
                  DRAFTSMITH_CUDA_LIBRARY_FOLDER));
}

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) throw Error(fmt::format("libnccl.so.2 lacks {}: install a newer one", name));
}

// One algorithm, protocol and cut into channels, so that sums have one order and bits repeat whatever the
// environment says; no multicast, which only some machines allow. NCCL takes these from the environment alone
// or prefers it to what it is asked for, and reads it when the first communicator is made. Set in set-up by
// the main thread, while no other thread reads the environment.
void pin_algorithm() {
  constexpr const char* kPinned[][2] = {{"NCCL_ALGO", "Ring"},
                                        {"NCCL_PROTO", "Simple"},
                                        {"NCCL_NVLS_ENABLE", "0"},
                                        {"NCCL_RUNTIME_CONNECT", "0"}};  // all connections in set-up
  constexpr const char* kLeftToUs[] = {"NCCL_MIN_CTAS",      "NCCL_MAX_CTAS", "NCCL_MIN_NCHANNELS",
                                       "NCCL_MAX_NCHANNELS", "NCCL_NTHREADS", "NCCL_BUFFSIZE",
                                       "NCCL_COMM_BLOCKING"};
  for (const auto& [name, value] : kPinned) setenv(name, value, 1);
  for (const char* name : kLeftToUs) unsetenv(name);
}

Nccl load() {
  count_set_up(SetUp::handle);
  pin_algorithm();
  void* library = open_library();
  Nccl functions{};
  find(library, "ncclGetErrorString", functions.error_string);
  find(library, "ncclGetUniqueId", functions.unique_id);
  find(library, "ncclCommInitRankConfig", functions.init_rank);
  find(library, "ncclCommDestroy", functions.destroy);
  find(library, "ncclCommAbort", functions.abort);
  find(library, "ncclCommGetAsyncError", functions.async_error);
  find(library, "ncclGroupStart", functions.group_start);
  find(library, "ncclGroupEnd", functions.group_end);
  find(library, "ncclAllReduce", functions.all_reduce);
  find(library, "ncclBroadcast", functions.broadcast);
  return functions;
}

}  // namespace

const Nccl& nccl() {
  static const Nccl functions = load();
  return functions;
}

void check_nccl(ncclResult_t result, const char* tried) {
  if (result == ncclSuccess) return;
  throw Error(fmt::format("{} failed in NCCL: {}. NCCL_DEBUG=INFO makes it say more", tried,
                          nccl().error_string(result)));
}

}  // namespace draftsmith::cuda
