// What the answers of a GPU driver mean: which cards can be used, and in one line why the others cannot.
#pragma once

#include <string>
#include <vector>

#include "device/device.h"

namespace draftsmith {

struct DriverAnswer {
  struct Card {
    DeviceTraits traits;
    std::string failure;  // why its traits cannot be read, in the driver's words; empty: they can
  };
  int driver = 0;        // the newest CUDA that the driver supports, 13000 for 13.0; 0: there is no driver
  int needed = 0;        // the CUDA that this program was built with
  bool too_old = false;  // the driver serves older programs only
  std::string failure;   // why it cannot count the cards, in its words; empty: it can
  std::vector<Card> cards;
};

GpuList judge_gpus(const DriverAnswer& answer);

// The card of that name. Throws Error saying why it cannot be used.
const GpuList::Gpu& usable_gpu(const GpuList& list, DeviceName name);

}  // namespace draftsmith
