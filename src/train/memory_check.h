// Whether the memory of a run is there, asked when it is counted and before any of it is allocated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/pipeline.h"

namespace draftsmith {

struct MemoryNeed {
  std::string where;  // "cuda:0", or "the host"
  std::int64_t bytes = 0;
  std::int64_t available_bytes = 0;

  bool is_met() const { return bytes <= available_bytes; }
};

// Of every device, and of the host with all that logical CPU devices take. `pipeline` is measured.
template <typename T>
std::vector<MemoryNeed> memory_needs(const Pipeline<T>& pipeline);

// Empty when all needs are met; else what lacks and the largest budgets that would fit. Measures smaller ones.
template <typename T>
std::string memory_lack(const Pipeline<T>& pipeline, const PipelineInputs& inputs);

}  // namespace draftsmith
