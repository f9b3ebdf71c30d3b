#include "fabric/collective.h"

#include <algorithm>

#include "base/error.h"
#include "fabric/cuda/nccl_collective.h"
#include "fabric/local_collective.h"

namespace draftsmith {

std::unique_ptr<Collective> make_collective(const std::vector<Device>& devices) {
  const auto is_gpu = [](const Device& device) { return device.name.kind == DeviceKind::cuda; };
  const auto gpus = std::count_if(devices.begin(), devices.end(), is_gpu);
  if (gpus > 0 && devices.size() > 1) {
    if (gpus == std::ssize(devices)) return make_nccl_collective(devices);
    throw Error(
        "drafters exchange gradients among CPU devices or among GPUs, not between the two, but "
        "devices.drafters names both: name devices of one kind");
  }
  return std::make_unique<LocalCollective>(std::ssize(devices));
}

}  // namespace draftsmith
