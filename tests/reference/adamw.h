// One AdamW update of one entry in double.
#pragma once

#include <cmath>

#include "kernels/adamw.h"

namespace draftsmith::test {

struct AdamWEntry {
  double master, first_moment, second_moment;
};

inline AdamWEntry adamw_reference(const AdamWSettings& settings, AdamWEntry entry, double gradient,
                                  double learning_rate, bool decays, double updates) {
  const double beta1 = settings.beta1, beta2 = settings.beta2;
  entry.first_moment = beta1 * entry.first_moment + (1 - beta1) * gradient;
  entry.second_moment = beta2 * entry.second_moment + (1 - beta2) * gradient * gradient;
  if (decays) entry.master -= learning_rate * settings.weight_decay * entry.master;
  const double first = entry.first_moment / (1 - std::pow(beta1, updates));
  const double second = entry.second_moment / (1 - std::pow(beta2, updates));
  entry.master -= learning_rate * first / (std::sqrt(second) + settings.epsilon);
  return entry;
}

}  // namespace draftsmith::test
