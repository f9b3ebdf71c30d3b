// Which split of the devices at hand into targets and drafters is the fastest, from how long the work of each role
// takes one device. An exchange among more drafters, and a host that feeds them all, are taken as free.
#pragma once

#include <cstdint>
#include <string>

namespace draftsmith {

struct RoleWork {
  double target_s = 0, drafter_s = 0;  // all micro-batches of a run, or one of them, on one device
};

struct DeviceSplit {
  std::int64_t targets = 0, drafters = 0;
  bool both_roles = false;  // on every device; targets and drafters then name the same ones

  bool operator==(const DeviceSplit&) const = default;
};

// How long a split takes: as long as the slower of the two.
double split_s(const RoleWork& work, const DeviceSplit& split);
// Of all splits of `devices`; on a par, the one with fewer targets.
DeviceSplit best_split(const RoleWork& work, std::int64_t devices);
// "3 targets + 5 drafters", or "both roles on each of 8".
std::string split_text(const DeviceSplit& split);

}  // namespace draftsmith
