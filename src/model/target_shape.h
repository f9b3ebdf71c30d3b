// A target's shape from its config.json: the one place where the file's names become ours.
#pragma once

#include <filesystem>

#include "data/hf_config.h"
#include "model/shape.h"

namespace draftsmith {

RopeShape rope_shape(const RopeConfig& rope);

// Throws Error for sizes that no kernel takes.
TargetShape target_shape(const TargetConfigFile& file);

// Reads and converts the config.json of a Hugging Face folder.
TargetShape read_target_shape(const std::filesystem::path& folder);

}  // namespace draftsmith
