// The exchange over GPUs through NCCL, inside one process: one communicator rank a drafter, used by its
// thread. Fulfilled by nccl_collective.cpp, or by cuda_absent.cpp where NCCL's header was missing at build
// time.
#pragma once

#include <memory>
#include <vector>

#include "fabric/collective.h"

namespace draftsmith {

// Throws Error with advice when NCCL is not there.
std::unique_ptr<Collective> make_nccl_collective(const std::vector<Device>& devices);

}  // namespace draftsmith
