// Lists what devices.targets and devices.drafters can name here.
#include <fmt/core.h>

#include "app/commands.h"
#include "app/machine.h"
#include "base/error.h"
#include "device/device.h"

namespace draftsmith {

int run_devices() {
  const Machine machine = this_machine();
  fmt::print("cpu:0, cpu:1, ...  logical devices on {}\n", machine.cpu);
  fmt::print(
      "                   an arena and a thread each; as many as wanted share {} cores and {:.1f} GiB\n",
      machine.cores, static_cast<double>(machine.memory_bytes) / (1 << 30));
  fmt::print("                   features: {}\n", machine.cpu_features);
  try {
    open_device(DeviceName{DeviceKind::cuda, 0}, 1, 1);
    fmt::print("cuda:0\n");
  } catch (const Error& error) {
    fmt::print("cuda:0             no: {}\n", error.what());
  }
  return kExitDone;
}

}  // namespace draftsmith
