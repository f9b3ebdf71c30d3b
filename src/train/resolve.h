// From options to numbers: what the target's files and the machine say fills what the options leave open.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "data/corpus.h"
#include "device/device.h"
#include "train/device_thread.h"
#include "train/packer.h"
#include "train/run_config.h"
#include "train/run_shapes.h"

namespace draftsmith {

// bf16 where this CPU multiplies it, else float32.
DType resolve_compute(const std::optional<DType>& wanted);

// The drafter's shape: every option that is not set follows the target. Throws Error for a shape that cannot
// be trained (model/shape.h).
DrafterShape resolve_drafter(const DrafterConfig& config, const TargetShape& target,
                             std::int64_t mask_token_id);

// Writes what was resolved into the configuration, so that what is saved says what was trained. The rope stays
// as it was said (train/drafter_rope.h).
void fill_resolved(RunConfig& config, const DrafterShape& drafter);

// Throws Error when the data's longest document is beyond the target's positions.
RunShapes resolve_shapes(const RunConfig& config, const TargetShape& target, const DrafterShape& drafter);

PackerSettings packer_settings(const RunConfig& config, const BatchBudget& budget);

// train.steps, or as many as train.epochs take. `config` has one of them.
std::int64_t resolve_steps(const RunConfig& config, const Corpus& corpus, const BatchBudget& budget);

struct DeviceAssignment {
  Device device;
  DeviceRoles roles;
};
// One entry a device, in the order of the options, targets first; a name in both lists is one device with
// both roles. Opens the devices.
std::vector<DeviceAssignment> assign_devices(const DevicesConfig& config);

}  // namespace draftsmith
