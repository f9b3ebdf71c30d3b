#include "train/balance.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/counted.h"

namespace draftsmith {

double split_s(const RoleWork& work, const DeviceSplit& split) {
  const double targets_s = work.target_s / static_cast<double>(split.targets);
  const double drafters_s = work.drafter_s / static_cast<double>(split.drafters);
  return split.both_roles ? targets_s + drafters_s : std::max(targets_s, drafters_s);
}

DeviceSplit best_split(const RoleWork& work, std::int64_t devices) {
  DeviceSplit best{.targets = devices, .drafters = devices, .both_roles = true};
  for (std::int64_t targets = devices - 1; targets >= 1; --targets) {
    const DeviceSplit split{.targets = targets, .drafters = devices - targets};
    if (split_s(work, split) <= split_s(work, best)) best = split;
  }
  return best;
}

std::string split_text(const DeviceSplit& split) {
  if (split.both_roles && split.targets == 1) return "both roles on the one device";
  if (split.both_roles) return fmt::format("both roles on each of {} devices", split.targets);
  return counted(split.targets, "target") + " + " + counted(split.drafters, "drafter");
}

}  // namespace draftsmith
