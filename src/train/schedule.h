// The learning rate as a pure function of the step: a linear rise over the first ceil(warmup_ratio * steps)
// steps, then a cosine, a straight line or a constant, from lr down to lr * min_lr_ratio at the last step.
#pragma once

#include <cstdint>

#include "train/run_config.h"

namespace draftsmith {

// step counts from 1 to steps.
double learning_rate(const OptimizerConfig& optimizer, std::int64_t step, std::int64_t steps);

}  // namespace draftsmith
