#include "train/role_times.h"

#include <algorithm>
#include <chrono>

#include <fmt/core.h>

#include "train/crew.h"
#include "train/watchdog.h"

namespace draftsmith {
namespace {

std::string device_text(const DeviceTimes& device, double micro_batch_s) {
  std::string text = fmt::format("  {} ({})", device.name.text(), device.roles.text());
  if (device.roles.target) {
    text += fmt::format(", {:.3g} ms as a target, copies to slots {:.3g} GB/s", 1e3 * device.target_s,
                        device.copies.to_slot / 1e9);
  }
  if (device.roles.drafter) {
    text += fmt::format(", {:.3g} ms as a drafter, copies from slots {:.3g} GB/s", 1e3 * device.drafter_s,
                        device.copies.from_slot / 1e9);
  }
  return text + fmt::format("; busy {:.0f} % of the time\n", 100 * device.busy_s() / micro_batch_s);
}

// Who would wait for whom: all others for the busiest.
std::string waits_text(const RoleTimes& times) {
  const DeviceTimes& busiest = times.busiest();
  std::string text;
  for (const DeviceTimes& device : times.devices) {
    const double waits = 1 - device.busy_s() / times.micro_batch_s();
    if (&device == &busiest) continue;
    text += fmt::format("    {} would wait {:.0f} % of the time, for {}\n", device.name.text(), 100 * waits,
                        busiest.name.text());
  }
  return text;
}

std::string speed_text(const RoleTimes& times, double micro_batch_s) {
  return fmt::format("{:.4g} tokens/s, {:.4g} blocks/s", static_cast<double>(times.tokens) / micro_batch_s,
                     static_cast<double>(times.blocks) / micro_batch_s);
}

std::string best_text(const RoleTimes& times) {
  if (times.devices.size() == 1 || !times.comparable()) return "";
  const DeviceSplit best = best_split(times.work(), std::ssize(times.devices));
  const double best_s = split_s(times.work(), best);
  if (best == times.split() || best_s >= times.micro_batch_s()) {
    return "    no other split of these devices would be faster\n";
  }
  return fmt::format("    the fastest with these devices: {}, {}, {:.2f} times as fast\n", split_text(best),
                     speed_text(times, best_s), times.micro_batch_s() / best_s);
}

}  // namespace

double DeviceTimes::busy_s() const {
  return target_s / static_cast<double>(roles.targets) + drafter_s / static_cast<double>(roles.drafters);
}

const DeviceTimes& RoleTimes::busiest() const {
  return *std::max_element(devices.begin(), devices.end(), [](const DeviceTimes& a, const DeviceTimes& b) {
    return a.busy_s() < b.busy_s();
  });
}

double RoleTimes::micro_batch_s() const { return busiest().busy_s(); }

DeviceSplit RoleTimes::split() const {
  const DeviceRoles& roles = devices.front().roles;
  return {.targets = roles.targets,
          .drafters = roles.drafters,
          .both_roles = std::all_of(devices.begin(), devices.end(), [](const DeviceTimes& device) {
            return device.roles.target && device.roles.drafter;
          })};
}

bool RoleTimes::comparable() const {
  return std::all_of(devices.begin(), devices.end(), [&](const DeviceTimes& device) {
    return device.name.kind == devices.front().name.kind;
  });
}

RoleWork RoleTimes::work() const {
  RoleWork work;
  for (const DeviceTimes& device : devices) {
    work.target_s += device.target_s / static_cast<double>(device.roles.targets);
    work.drafter_s += device.drafter_s / static_cast<double>(device.roles.drafters);
  }
  return work;
}

template <typename T>
RoleTimes time_roles(const std::vector<std::unique_ptr<DeviceThread<T>>>& devices, Slot& slot,
                     Collective& collective, double limit_s) {
  RoleTimes times{.tokens = slot.facts.counts.context_tokens, .blocks = slot.facts.counts.blocks};
  for (const auto& device : devices) {
    times.devices.push_back({.name = device->device().name,
                             .roles = device->roles(),
                             .target_s = device->roles().target ? device->time_target(slot) : 0,
                             .copies = device->copy_rates()});
  }
  Crew crew([&collective] { collective.cancel(); });
  try {
    for (std::size_t i = 0; i < devices.size(); ++i) {
      if (!devices[i]->roles().drafter) continue;
      crew.start(devices[i]->times(),
                 [&, i] { times.devices[i].drafter_s = devices[i]->time_drafter(slot, collective); });
    }
    Watchdog watchdog(limit_s);
    do {
      collective.check();
      watchdog.check(crew.running());
    } while (!crew.ended_within(std::chrono::seconds(1)));
  } catch (...) {
    crew.fail();
  }
  crew.join_or_exit(std::chrono::milliseconds(static_cast<std::int64_t>(1e3 * limit_s)));
  crew.rethrow();
  return times;
}

std::string role_times_text(const RoleTimes& times) {
  std::string text =
      fmt::format("measured on a micro-batch of {} tokens and {} blocks\n", times.tokens, times.blocks);
  for (const DeviceTimes& device : times.devices) text += device_text(device, times.micro_batch_s());
  return text +
         fmt::format("expected of {}: {}\n", split_text(times.split()),
                     speed_text(times, times.micro_batch_s())) +
         waits_text(times) + best_text(times);
}

template RoleTimes time_roles(const std::vector<std::unique_ptr<DeviceThread<float>>>&, Slot&, Collective&,
                              double);
template RoleTimes time_roles(const std::vector<std::unique_ptr<DeviceThread<bf16>>>&, Slot&, Collective&,
                              double);

}  // namespace draftsmith
