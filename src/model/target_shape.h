// A target's shape from its config.json, and rope to and from files: the one place where the files' names
// become ours.
#pragma once

#include <filesystem>

#include "data/hf_config.h"
#include "model/shape.h"

namespace draftsmith {

RopeShape rope_shape(const RopeConfig& rope);
// What a file says so that rope_shape() gives it back.
RopeConfig rope_config(const RopeShape& rope);

// Throws Error for sizes that no kernel takes.
TargetShape target_shape(const TargetConfigFile& file);

// Reads and converts the config.json of a Hugging Face folder.
TargetShape read_target_shape(const std::filesystem::path& folder);

}  // namespace draftsmith
