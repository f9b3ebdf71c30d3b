// What helps a run whose losses or gradients are not finite.
#pragma once

#include <string>

#include "train/checkpoint.h"

namespace draftsmith {

// As in "Try a lower train.optimizer.lr".
std::string divergence_advice(const StepCounters& counters);

}  // namespace draftsmith
