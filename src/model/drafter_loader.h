// A drafter from a folder in the z-lab layout, whoever wrote it: its shape, and its weights in the one flat
// range that drafter_weight_table() describes.
#pragma once

#include <filesystem>
#include <vector>

#include "data/drafter_config.h"
#include "model/shape.h"
#include "model/weights.h"

namespace draftsmith {

// Throws Error for what cannot be served (check_drafter_shape).
DrafterShape drafter_shape(const DrafterConfigFile& file);

struct LoadedDrafter {
  DrafterShape shape;
  std::vector<float> weights;  // [drafter_weight_table(shape).size]; gaps are 0
};

// Throws Error naming file and key or tensor: what cannot be read, values that are not finite, and a folder that is not
// what its checksums.json says, where it has one.
LoadedDrafter load_drafter(const std::filesystem::path& folder);

}  // namespace draftsmith
