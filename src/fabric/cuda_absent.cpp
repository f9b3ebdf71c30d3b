// Built instead of cuda/ without CUDA, or without NCCL's header.
#include "base/error.h"
#include "fabric/cuda/nccl_collective.h"

namespace draftsmith {

std::unique_ptr<Collective> make_nccl_collective(const std::vector<Device>&) {
  throw Error(
      "several drafters on GPUs exchange gradients through NCCL, and this draftsmith was built without it: "
      "install NCCL's header (nccl.h, from libnccl-dev or the pip package nvidia-nccl-cu13) and build again, "
      "or name one drafter");
}

}  // namespace draftsmith
