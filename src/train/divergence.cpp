#include "train/divergence.h"

namespace draftsmith {

std::string divergence_advice(const StepCounters& counters) {
  const std::string advice = "Try a lower train.optimizer.lr, or train.compute=float32";
  if (counters.updates > 0) return advice;
  return "No step was finite, so the target's hidden states may not be either: compare its config.json, as "
         "rms_norm_eps, and its weights, which draftsmith inspect lists, with where the model came from. " +
         advice;
}

}  // namespace draftsmith
