// The devices that kernel tests run on.
#pragma once

#include "device/device.h"

namespace draftsmith::test {

// A logical CPU device with that many workers, which share even the smallest launch.
inline Device cpu_device(int threads = 1) {
  return {.name = {}, .work_worth_sharing = 0, .threads = threads};
}

}  // namespace draftsmith::test
