// Lists what devices.targets and devices.drafters can name here, and why a card is not usable.
#include <fmt/core.h>

#include "app/commands.h"
#include "app/machine.h"
#include "base/error.h"
#include "device/device.h"
#include "kernels/tables.h"

namespace draftsmith {

namespace {

// A card may also lack the library of its products.
std::string why_unusable(const GpuList::Gpu& gpu) {
  if (!gpu.unusable.empty()) return gpu.unusable;
  Device device;
  device.name = gpu.name;
  device.traits = gpu.traits;
  try {
    kernels_of<bf16>(device).product_facts(device);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

int run_devices() {
  const Machine machine = this_machine();
  fmt::print("cpu:0, cpu:1, ...  logical devices on {}\n", machine.cpu);
  fmt::print(
      "                   an arena and a thread each; as many as wanted share {} cores and {:.1f} GiB\n",
      machine.cores, static_cast<double>(machine.memory_bytes) / (1 << 30));
  fmt::print("                   features: {}\n", machine.cpu_features);
  const GpuList list = list_gpus();
  if (!list.none.empty()) fmt::print("cuda:0             no: {}\n", list.none);
  for (const GpuList::Gpu& gpu : list.gpus) {
    fmt::print("{:<18} {}", gpu.name.text(), gpu.traits.card);
    if (const std::string why = why_unusable(gpu); !why.empty()) {
      fmt::print(", no: {}\n", why);
      continue;
    }
    fmt::print(", {:.1f} GiB, compute capability {}.{}, {} multiprocessors, driver for CUDA {}.{}\n",
               static_cast<double>(gpu.traits.memory_bytes) / (1 << 30), gpu.traits.compute / 10,
               gpu.traits.compute % 10, gpu.traits.multiprocessors, gpu.traits.driver / 1000,
               gpu.traits.driver % 1000 / 10);
  }
  return kExitDone;
}

}  // namespace draftsmith
