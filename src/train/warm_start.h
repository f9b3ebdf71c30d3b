// Training that begins with the weights of a drafter's folder (drafter.init) instead of random ones.
#pragma once

#include <filesystem>

#include "model/shape.h"
#include "tensor/tensor.h"

namespace draftsmith {

// Throws what load_initial_weights() would, but for values: reads the configuration and the headers alone.
void check_initial_drafter(const std::filesystem::path& folder, const DrafterShape& shape);

// Reads the folder's weights into `master`, the flat range of the drafter's weight table. Throws Error naming every
// option in which the folder's drafter is another than `shape`, but warns only of those to which training can adapt it: the
// epsilon, the scaling of positions and the depth of the target. The block size may differ.
void load_initial_weights(const std::filesystem::path& folder, const DrafterShape& shape,
                          Vector<float> master);

}  // namespace draftsmith
