#include "device/cpu/parallel.h"

#include <thread>

#include <omp.h>

namespace draftsmith {

void start_workers(int threads) {
  omp_set_dynamic(0);
  omp_set_num_threads(threads);
  if (threads == 1) return;
#pragma omp parallel
  { std::this_thread::yield(); }  // the workers are created here, once
}

}  // namespace draftsmith
