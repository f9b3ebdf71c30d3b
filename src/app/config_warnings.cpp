#include "app/config_warnings.h"

#include <algorithm>

#include <fmt/core.h>

#include "app/machine.h"
#include "base/counted.h"
#include "base/log.h"

namespace draftsmith {
namespace {

bool has_cpu_device(const DevicesConfig& devices) {
  const auto is_cpu = [](const std::string& name) { return DeviceName::parse(name).kind == DeviceKind::cpu; };
  return std::any_of(devices.targets.begin(), devices.targets.end(), is_cpu) ||
         std::any_of(devices.drafters.begin(), devices.drafters.end(), is_cpu);
}

}  // namespace

std::string thread_warning(std::string_view option, DeviceKind kind, std::int64_t threads, int cores) {
  if (kind != DeviceKind::cpu || threads <= cores) return "";
  return fmt::format(
      "{} is {}, but this machine has {}: the threads of a device take turns on them and wait for each "
      "other; "
      "leave it out to take the cores that there are",
      option, threads, counted(cores, "core"));
}

std::string sampling_warning(const SamplingSettings& sampling) {
  std::string without_effect;
  const auto add = [&](const char* option, bool given) {
    if (given) without_effect += (without_effect.empty() ? "" : ", ") + std::string(option);
  };
  const SamplingSettings usual;
  add("--top-p", sampling.top_p != usual.top_p);
  add("--seed", sampling.seed != usual.seed);
  add("--greedy-drafts", sampling.greedy_drafts);
  if (!sampling.is_greedy() || without_effect.empty()) return "";
  return fmt::format(
      "without effect at temperature 0, where nothing is drawn: {}; set --temperature above 0, or leave it "
      "out",
      without_effect);
}

std::vector<std::string> config_warnings(const RunConfig& config, int cores) {
  std::vector<std::string> warnings;
  const DevicesConfig& devices = config.devices;
  if (config.train.optimizer.shard && devices.drafters.size() == 1) {
    warnings.push_back(
        fmt::format("train.optimizer.shard has no effect: {} is the only drafter, and keeps masters and "
                    "moments whole; name more devices in devices.drafters to share them out",
                    devices.drafters.front()));
  }
  const DeviceKind kind = has_cpu_device(devices) ? DeviceKind::cpu : DeviceKind::cuda;
  std::string threads = thread_warning("devices.threads", kind, devices.threads.value_or(0), cores);
  if (!threads.empty()) warnings.push_back(std::move(threads));
  return warnings;
}

void warn_of_config(const RunConfig& config) {
  for (const std::string& warning : config_warnings(config, this_machine().cores)) log_warning(warning);
}

}  // namespace draftsmith
