// Says whether a target's folder holds the model that it held: its hidden states are what a drafter is trained on.
#pragma once

#include <cstdint>
#include <filesystem>

namespace draftsmith {

// CRC-32C of config.json and of every tensor's name, type, shape and first 4 KiB: cheap also for a target that takes
// minutes to read. Another training of the same model changes it, a move or copy of the folder does not; a change of
// single values deep inside a tensor goes unnoticed. Throws Error for what cannot be read.
std::int64_t identify_target(const std::filesystem::path& folder);

}  // namespace draftsmith
