#include "train/plan.h"

#include <atomic>
#include <numeric>

#include <fmt/core.h>

#include "base/counted.h"
#include "train/initial_state.h"
#include "train/pipeline.h"
#include "train/resolve.h"
#include "train/useful_flops.h"

namespace draftsmith {
namespace {

template <typename T>
void plan_devices(const PipelineInputs& inputs, const PlanDetail& detail, RunPlan& plan) {
  Pipeline<T> pipeline(inputs);
  ProductChoices choices;
  pipeline.measure(Preparation::sizes, choices);
  plan.lack = memory_lack(pipeline, inputs);
  const bool prepare = (detail.products || detail.speed) && plan.lack.empty();
  if (prepare) pipeline.measure(Preparation::products, choices);
  const std::vector<MemoryNeed> needs = memory_needs(pipeline);
  for (std::size_t i = 0; i < pipeline.devices().size(); ++i) {
    auto& device = *pipeline.devices()[i];
    plan.devices.push_back(
        {.name = device.device().name.text(),
         .roles = device.roles().text(),
         .threads = device.device().threads,
         .bytes_by_purpose = pipeline.bytes_by_purpose(device),
         .bytes = needs[i].bytes,
         .available_bytes = needs[i].available_bytes,
         .attention = device.attention_paths(),
         .products = prepare && detail.products ? device.describe_products() : std::vector<std::string>()});
  }
  plan.weights = pipeline.table().size;
  plan.host_bytes = {{"slots", pipeline.slot_bytes()},
                     {"checkpoint staging", InitialState::bytes(pipeline.table())}};
  plan.host = needs.back();
  if (!detail.speed || !plan.lack.empty()) return;
  pipeline.allocate();
  const InitialState initial(pipeline.table(), inputs.config, inputs.shapes);
  SetUpTimes times;
  pipeline.set_up(initial.state(), {}, times);
  plan.measured = pipeline.time_roles();
}

// A device takes about as long as its useful operations.
RoleWork first_micro_batch(const RunConfig& config, const RunInputs& inputs) {
  const RunShapes& shapes = inputs.shapes;
  Carver count;
  carve_micro_batch(count, shapes.budget);
  const Buffer memory = Buffer::pinned(count.peak());
  Carver carver(memory.data(), memory.bytes());
  Packer packer(inputs.train, shapes.drafter, packer_settings(config, shapes.budget), {});
  const BatchFacts facts = packer.next(carve_micro_batch(carver, shapes.budget));
  return {.target_s = useful_target_flops(shapes.target, shapes.target_layers(), facts),
          .drafter_s = useful_drafter_flops(shapes.drafter, facts)};
}

std::string counted_text(const RunPlan& plan) {
  std::string text = fmt::format(
      "speed is not measured (--measure does); by counted work a micro-batch is {:.2f} times as much for a "
      "drafter as for a target\n",
      plan.work.drafter_s / plan.work.target_s);
  const std::int64_t devices = std::ssize(plan.devices);
  if (devices == 1) return text;
  return text + fmt::format("    of {} equal devices the fastest would be, counted: {}\n", devices,
                            split_text(best_split(plan.work, devices)));
}

std::int64_t sum_of(const std::map<std::string, std::int64_t>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0},
                         [](std::int64_t sum, const auto& entry) { return sum + entry.second; });
}

}  // namespace

RunPlan plan_run(const RunConfig& config, const RunInputs& inputs, const PlanDetail& detail,
                 const PipelineHooks& hooks) {
  const std::atomic<int> no_signal{0};
  const BatchBudget& budget = inputs.shapes.budget;
  RunPlan plan;
  plan.compute = config.train.compute == DType::bf16 ? "bf16" : "float32";
  plan.steps = resolve_steps(config, inputs.train, budget);
  PackerSettings one_epoch = packer_settings(config, budget);
  one_epoch.epochs = 1;
  const double documents_per_batch = static_cast<double>(inputs.train.size()) /
                                     static_cast<double>(count_micro_batches(inputs.train, one_epoch));
  plan.documents_per_step = documents_per_batch * static_cast<double>(std::ssize(config.devices.drafters) *
                                                                      config.train.accumulate);
  plan.epochs =
      plan.documents_per_step * static_cast<double>(plan.steps) / static_cast<double>(inputs.train.size());
  plan.work = first_micro_batch(config, inputs);
  const PipelineInputs pipeline{.config = config,
                                .shapes = inputs.shapes,
                                .train = inputs.train,
                                .evaluation = nullptr,
                                .steps = plan.steps,
                                .hooks = hooks,
                                .stop_signal = no_signal};
  config.train.compute == DType::bf16 ? plan_devices<bf16>(pipeline, detail, plan)
                                      : plan_devices<float>(pipeline, detail, plan);
  return plan;
}

std::string plan_text(const RunPlan& plan) {
  std::string text = fmt::format(
      "{} steps of about {:.0f} documents, {:.2f} epochs, in {}; {:.2f} M weights are trained\n", plan.steps,
      plan.documents_per_step, plan.epochs, plan.compute, static_cast<double>(plan.weights) / 1e6);
  for (const PlannedDevice& device : plan.devices) {
    text += fmt::format("{} ({}, {}): {} of {} available\n{}", device.name, device.roles,
                        counted(device.threads, "thread"), byte_text(device.bytes),
                        byte_text(device.available_bytes), purpose_text(device.bytes_by_purpose));
    for (const std::string& path : device.attention) text += "    attention of " + path + "\n";
    if (!device.products.empty()) text += "    products\n";
    for (const std::string& product : device.products) text += "      " + product + "\n";
  }
  return text + (plan.measured ? role_times_text(*plan.measured) : counted_text(plan)) +
         fmt::format("host: {} beside the devices; with those on the CPU {} of {} available\n{}",
                     byte_text(sum_of(plan.host_bytes)), byte_text(plan.host.bytes),
                     byte_text(plan.host.available_bytes), purpose_text(plan.host_bytes));
}

}  // namespace draftsmith
