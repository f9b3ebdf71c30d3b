// What a run would take, found by the code that lays out memory, without allocating it; and how fast it would be, if that is
// asked for, by setting it up.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "train/balance.h"
#include "train/memory_check.h"
#include "train/role_times.h"
#include "train/run_config.h"
#include "train/run_inputs.h"

namespace draftsmith {

struct PlannedDevice {
  std::string name;
  std::string roles;
  int threads = 1;
  std::map<std::string, std::int64_t> bytes_by_purpose;
  std::int64_t bytes = 0, available_bytes = 0;
  std::vector<std::string> attention;  // which implementation each kind takes, where there are several
  std::vector<std::string> products;   // shape and algorithm of every matrix product, if asked for
};

struct RunPlan {
  std::string compute;
  std::int64_t weights = 0;  // trained ones
  std::int64_t steps = 0;
  double documents_per_step = 0;
  double epochs = 0;
  std::vector<PlannedDevice> devices;
  std::map<std::string, std::int64_t> host_bytes;  // beside the devices
  MemoryNeed host;                                 // with the logical CPU devices
  std::string lack;                                // why it cannot run here; empty: it can
  RoleWork work;                      // of the first micro-batch, in useful operations: how the roles compare
  std::optional<RoleTimes> measured;  // if asked for
};

// What is found out beside the memory, if the memory is there.
struct PlanDetail {
  bool products = false;  // prepared, to list them
  bool speed = false;     // the run is set up, memory and all, and its roles are timed; nothing is written
};
// `config` is resolved, compute too.
RunPlan plan_run(const RunConfig& config, const RunInputs& inputs, const PlanDetail& detail,
                 const PipelineHooks& hooks = {});

std::string plan_text(const RunPlan& plan);

}  // namespace draftsmith
