// What a run would take, found by the code that lays out memory, without allocating it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "train/balance.h"
#include "train/run_config.h"
#include "train/run_inputs.h"

namespace draftsmith {

struct PlannedDevice {
  std::string name;
  std::string roles;
  int threads = 1;
  std::map<std::string, std::int64_t> bytes_by_purpose;
  std::int64_t bytes = 0;
  std::vector<std::string> products;  // shape and algorithm of every matrix product
};

struct RunPlan {
  std::string compute;
  std::int64_t weights = 0;  // trained ones
  std::int64_t steps = 0;
  double documents_per_step = 0;
  double epochs = 0;
  std::vector<PlannedDevice> devices;
  std::map<std::string, std::int64_t> host_bytes;
  RoleWork work;  // of the first micro-batch, in useful operations: how the roles compare

  // Logical CPU devices share the host's memory.
  std::int64_t total_bytes() const;
};

// `config` is resolved, compute too.
RunPlan plan_run(const RunConfig& config, const RunInputs& inputs);

enum class PlanDetail { memory, memory_and_products };
std::string plan_text(const RunPlan& plan, PlanDetail detail);

}  // namespace draftsmith
