#include "app/resume_check.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "app/config.h"
#include "app/options.h"
#include "base/error.h"
#include "train/run_folder.h"

namespace draftsmith {
namespace {

// These change where, how often and beside what a run computes, but not what. The target is compared by its identity
// and the training data token by token instead (train/resumed_run.h), the drafters by their number (three and more GPUs
// by name), and the threads with what else the products of a device depend on (kernels/product_choices.h).
constexpr std::string_view kFree[] = {"output",
                                      "target",
                                      "data.train",
                                      "data.eval",
                                      "train.checkpoint.every",
                                      "train.checkpoint.keep",
                                      "train.eval.every",
                                      "train.eval.conversations",
                                      "train.optimizer.shard",
                                      "devices.targets",
                                      "devices.drafters",
                                      "devices.queue.slots",
                                      "devices.queue.path",
                                      "devices.memory_gib",
                                      "devices.threads",
                                      "devices.watchdog_s"};

std::string value_text(const OptionValue& value) {
  if (value.empty()) return "auto";
  std::string text;
  for (const OptionScalar& scalar : value) text += (text.empty() ? "" : ", ") + scalar_text(scalar);
  return text;
}

// Two addends have one sum in either order, and CPU devices add in the order of their ranks.
bool sum_around_a_ring(const std::vector<std::string>& drafters) {
  return drafters.size() > 2 && drafters.front().starts_with("cuda:");
}

bool lasts_otherwise(const RunConfig& before, const RunConfig& now) {
  return before.train.steps != now.train.steps || before.train.epochs != now.train.epochs;
}

}  // namespace

RunConfig check_resumed_config(const RunConfig& config, const std::string& saved_text,
                               const std::string& place) {
  const RunConfig saved = parse_config({.name = place, .text = saved_text});
  std::string differences;
  for (const Option& option : all_options()) {
    if (std::find(std::begin(kFree), std::end(kFree), option.name) != std::end(kFree)) continue;
    const OptionValue before = option.get(saved), now = option.get(config);
    if (before == now) continue;
    differences += fmt::format("\n  {} was {} and is {}", option.name, value_text(before), value_text(now));
  }
  const auto &before = saved.devices.drafters, &now = config.devices.drafters;
  if (before.size() != now.size()) {
    differences += fmt::format("\n  devices.drafters were {} and are {}", before.size(), now.size());
  } else if (before != now && sum_around_a_ring(now)) {
    differences += fmt::format(
        "\n  devices.drafters were {} and are {}: how three and more GPUs add up gradients "
        "depends on which they are",
        fmt::join(before, ", "), fmt::join(now, ", "));
  }
  if (differences.empty()) return saved;
  if (lasts_otherwise(saved, config)) {
    differences += fmt::format(
        "\nThe length of a run is part of it, as its learning rates follow it. To train a drafter on, begin "
        "a new "
        "run from it, with drafter.init={} and another output",
        RunFolder{saved.output}.exported().string());
  }
  throw Error(
      fmt::format("{}: the run cannot go on from here with this configuration. Set back what differs, "
                  "or begin anew with --overwrite:{}",
                  place, differences));
}

}  // namespace draftsmith
