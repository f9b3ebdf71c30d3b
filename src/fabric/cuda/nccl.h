// NCCL, loaded when the first several GPUs are to exchange. The program is not linked to it, so that it also
// starts where NCCL is not installed.
#pragma once

#include <nccl.h>

namespace draftsmith::cuda {

// The functions used, under their own names without the prefix.
struct Nccl {
  decltype(&::ncclGetErrorString) error_string;
  decltype(&::ncclGetUniqueId) unique_id;
  decltype(&::ncclCommInitRankConfig) init_rank;
  decltype(&::ncclCommDestroy) destroy;
  decltype(&::ncclCommAbort) abort;
  decltype(&::ncclCommGetAsyncError) async_error;
  decltype(&::ncclGroupStart) group_start;
  decltype(&::ncclGroupEnd) group_end;
  decltype(&::ncclAllReduce) all_reduce;
  decltype(&::ncclBroadcast) broadcast;
};

// Loads it the first time and pins how it sums. Throws Error saying where it was sought.
const Nccl& nccl();

// Throws Error naming what was tried.
void check_nccl(ncclResult_t result, const char* tried);

}  // namespace draftsmith::cuda
