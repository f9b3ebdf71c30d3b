// How long each device takes a micro-batch in each of its roles, timed on a pipeline that is set up, and what follows for
// a run: how fast it would be, who would wait, and which split of the devices would be the best.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "train/balance.h"
#include "train/device_thread.h"

namespace draftsmith {

struct DeviceTimes {
  DeviceName name;
  DeviceRoles roles;
  double target_s = 0;   // a micro-batch's features, until they are in the slot; 0 without the role
  double drafter_s = 0;  // a micro-batch's part of a step, exchange and update included; 0 without the role
  CopyRates copies;

  // Of the time that a micro-batch of the run takes, what this device is at work: it makes one of `targets`, and trains
  // on one of `drafters`.
  double busy_s() const;
};

struct RoleTimes {
  std::vector<DeviceTimes> devices;
  std::int64_t tokens = 0, blocks = 0;  // of the micro-batch

  // How long a micro-batch of a run takes once slots are filled: as long as the busiest device. Packing is taken as free.
  double micro_batch_s() const;
  const DeviceTimes& busiest() const;
  DeviceSplit split() const;
  bool comparable() const;  // whether the devices are of one kind
  RoleWork work() const;    // the mean over the devices of each role
};

// Runs every role again and again on a micro-batch, `slot`, that the devices have warmed up on: targets one after the
// other, then all drafters at once with their exchange. What was trained before is lost. Blocks; throws what a device or
// the exchange throws, and Error when no drafter goes on for `limit_s`.
template <typename T>
RoleTimes time_roles(const std::vector<std::unique_ptr<DeviceThread<T>>>& devices, Slot& slot,
                     Collective& collective, double limit_s);

std::string role_times_text(const RoleTimes& times);

}  // namespace draftsmith
