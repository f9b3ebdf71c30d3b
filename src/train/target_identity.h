// Says whether a target's folder holds the model that it held: its hidden states are what a drafter is trained on.
#pragma once

#include <cstdint>
#include <filesystem>

#include "data/json_fields.h"

namespace draftsmith {

// What a checkpoint and an export say of their target.
struct TargetIdentity {
  std::int64_t samples = 0;   // of each tensor, at most
  std::int64_t checksum = 0;  // CRC-32C

  bool operator==(const TargetIdentity&) const = default;
};

inline constexpr std::int64_t kTargetSamples =
    16;  // of a run that begins; older checkpoints may have taken fewer

// The checksum of config.json and of every tensor's name, type, shape and `samples` pieces of 4 KiB, spread evenly from
// its first byte to its last: 26 MB of a target of 16 GB and 400 tensors. A tensor that is no longer than its pieces is
// read whole. Any training that moves whole tensors changes it (another run, a merged adapter), a move or copy of the
// folder does not. Not seen is an edit that lies between the pieces: single values, or a few rows of a large table.
// Throws Error for what cannot be read.
TargetIdentity identify_target(const std::filesystem::path& folder, std::int64_t samples);

JsonValue identity_json(const TargetIdentity& identity);
TargetIdentity read_target_identity(const JsonFields& fields);

}  // namespace draftsmith
