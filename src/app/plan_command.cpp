// Says what a run would take, and whether it fits into this machine.
#include <fmt/core.h>

#include "app/commands.h"
#include "app/config.h"
#include "app/config_warnings.h"
#include "base/error.h"
#include "model/target.h"
#include "train/plan.h"
#include "train/resolve.h"
#include "train/warm_start.h"

namespace draftsmith {

int run_plan(const PlanArguments& arguments) {
  RunConfig config = load_config({.path = arguments.config, .overrides = arguments.overrides});
  warn_of_config(config);
  config.train.compute = resolve_compute(config.train.compute);
  const RunInputs inputs = load_run_inputs(config);
  check_target_weights(config.target, inputs.shapes.target, inputs.shapes.target_layers());
  if (!config.drafter.init.empty()) check_initial_drafter(config.drafter.init, inputs.shapes.drafter);
  const RunPlan plan = plan_run(config, inputs, {.products = arguments.verbose, .speed = arguments.measure});
  fmt::print("{}", plan_text(plan));
  if (!plan.lack.empty()) throw Error(plan.lack);
  fmt::print("it fits\n");
  return kExitDone;
}

}  // namespace draftsmith
