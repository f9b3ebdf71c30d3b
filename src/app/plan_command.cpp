// Says what a run would take, and whether it fits into this machine.
#include <fmt/core.h>

#include "app/commands.h"
#include "app/config.h"
#include "app/machine.h"
#include "train/plan.h"
#include "train/report.h"
#include "train/resolve.h"
#include "train/warm_start.h"

namespace draftsmith {

int run_plan(const PlanArguments& arguments) {
  RunConfig config = load_config({.path = arguments.config, .overrides = arguments.overrides});
  config.train.compute = resolve_compute(config.train.compute);
  const RunInputs inputs = load_run_inputs(config);
  if (!config.drafter.init.empty()) check_initial_drafter(config.drafter.init, inputs.shapes.drafter);
  const RunPlan plan = plan_run(config, inputs);
  fmt::print("{}", plan_text(plan, arguments.verbose ? PlanDetail::memory_and_products : PlanDetail::memory));
  const std::int64_t available = this_machine().available_bytes;
  const bool fits = plan.total_bytes() <= available;
  fmt::print("in all {} of {} available: {}\n", byte_text(plan.total_bytes()), byte_text(available),
             fits ? "it fits" : "it does not fit; lower train.context_tokens or train.blocks");
  return fits ? kExitDone : kExitError;
}

}  // namespace draftsmith
