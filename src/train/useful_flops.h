// The multiply-adds (times 2) that work needs: the frozen head and the features get no weight gradient, and
// nothing is computed twice or for padding. The yardstick of the reference implementation's `useful_flops`,
// with the true lengths in place of its averages. As there, every slot of a block counts in every layer, so that rates
// compare from version to version and with the reference: work that is left out because nothing needs it (the first
// layer's equal rows, the last layer's tail of unsupervised slots) counts as if it were done.
#pragma once

#include "train/run_shapes.h"
#include "train/slots.h"

namespace draftsmith {

// Forward and backward; of an evaluation, which goes forward only.
double useful_drafter_flops(const DrafterShape& shape, const BatchFacts& facts);
double useful_evaluation_flops(const DrafterShape& shape, const BatchFacts& facts);
double useful_target_flops(const TargetShape& shape, std::int64_t layers, const BatchFacts& facts);

}  // namespace draftsmith
