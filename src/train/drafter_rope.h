// The drafter's rope from its options. It is the drafter's own: theta follows the target's unless it is set,
// and the target's scaling is never taken over, since a drafter that is trained on short documents with a
// scaling that it does not need is served with it, too.
#pragma once

#include "model/shape.h"
#include "train/run_config.h"

namespace draftsmith {

// `config` has passed check_config(). Throws Error for a scaling that lacks its factor or its length.
RopeShape resolve_rope(const DrafterRopeConfig& config, const RopeShape& target);

}  // namespace draftsmith
