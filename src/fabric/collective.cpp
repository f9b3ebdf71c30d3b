#include "fabric/collective.h"

#include <algorithm>

#include "base/error.h"
#include "fabric/cuda/nccl_collective.h"
#include "fabric/local_collective.h"

namespace draftsmith {

namespace {

std::int64_t count_gpus(const std::vector<Device>& devices) {
  return std::count_if(devices.begin(), devices.end(),
                       [](const Device& device) { return device.name.kind == DeviceKind::cuda; });
}

}  // namespace

void check_exchange(const std::vector<Device>& devices) {
  const std::int64_t gpus = count_gpus(devices);
  if (gpus == 0 || gpus == std::ssize(devices)) return;
  throw Error(
      "drafters exchange gradients among CPU devices or among GPUs, not between the two, but "
      "devices.drafters names both: name devices of one kind");
}

std::unique_ptr<Collective> make_collective(const std::vector<Device>& devices) {
  check_exchange(devices);
  if (devices.size() > 1 && count_gpus(devices) > 0) return make_nccl_collective(devices);
  return std::make_unique<LocalCollective>(std::ssize(devices));
}

}  // namespace draftsmith
