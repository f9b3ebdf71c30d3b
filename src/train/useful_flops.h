// The multiply-adds (times 2) that work needs: the frozen head and the features get no weight gradient, and
// nothing is computed twice or for padding. The yardstick of the reference implementation's `useful_flops`,
// with the true lengths in place of its averages.
#pragma once

#include "train/run_shapes.h"
#include "train/slots.h"

namespace draftsmith {

// Forward and backward; of an evaluation, which goes forward only.
double useful_drafter_flops(const DrafterShape& shape, const BatchFacts& facts);
double useful_evaluation_flops(const DrafterShape& shape, const BatchFacts& facts);
double useful_target_flops(const TargetShape& shape, std::int64_t layers, const BatchFacts& facts);

}  // namespace draftsmith
