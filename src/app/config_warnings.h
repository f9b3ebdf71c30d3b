// What a run may say, but hardly means: it goes on, and the user is told.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "generate/sampler.h"
#include "train/run_config.h"

namespace draftsmith {

// Of options that have no effect, or a bad one, on a machine of so many cores.
std::vector<std::string> config_warnings(const RunConfig& config, int cores);

// Of options of sampling that a greedy decoding has no use for; else empty.
std::string sampling_warning(const SamplingSettings& sampling);

// Of more threads than cores for a logical CPU device, said by `option`; else empty.
std::string thread_warning(std::string_view option, DeviceKind kind, std::int64_t threads, int cores);

// To the log, for this machine.
void warn_of_config(const RunConfig& config);

}  // namespace draftsmith
