// The devices that kernel tests run on.
#pragma once

#include "device/device.h"

namespace draftsmith::test {

// A logical CPU device with that many workers.
inline Device cpu_device(int threads = 1) { return {.name = {}, .threads = threads}; }

}  // namespace draftsmith::test
