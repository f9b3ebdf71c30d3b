// The machine that the program runs on, asked at run time.
#pragma once

#include <cstdint>
#include <string>

namespace draftsmith {

struct Machine {
  std::string cpu;           // its name, as the system gives it
  std::string cpu_features;  // of those that change which kernels run, as in "avx2 avx512f avx512_bf16"
  int cores = 1;
  std::int64_t memory_bytes = 0;
};

Machine this_machine();

}  // namespace draftsmith
