#include "train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace draftsmith {

double learning_rate(const OptimizerConfig& optimizer, std::int64_t step, std::int64_t steps) {
  const auto warmup_steps =
      static_cast<std::int64_t>(std::ceil(optimizer.warmup_ratio * static_cast<double>(steps)));
  if (step <= warmup_steps) {
    return optimizer.lr * static_cast<double>(step) / static_cast<double>(warmup_steps);
  }
  const double done = static_cast<double>(step - warmup_steps) /
                      static_cast<double>(std::max<std::int64_t>(1, steps - warmup_steps));
  double share = 1;
  if (optimizer.schedule == ScheduleType::cosine) share = 0.5 * (1 + std::cos(std::numbers::pi * done));
  if (optimizer.schedule == ScheduleType::linear) share = 1 - done;
  if (optimizer.schedule == ScheduleType::constant) return optimizer.lr;
  return optimizer.lr * (optimizer.min_lr_ratio + (1 - optimizer.min_lr_ratio) * share);
}

}  // namespace draftsmith
