// Rotary position embedding as configurations state it. Two spellings are read:
//   transformers 4: rope_theta, and rope_scaling null or {"rope_type" or "type", ...}
//   transformers 5: rope_parameters {"rope_theta", "rope_type", ...}
// A file may hold both when they agree. Nothing is guessed: a missing theta, a type that is not supported,
// and rotation of a part of the head are Errors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/json_fields.h"

namespace draftsmith {

inline constexpr std::string_view kDefaultRope = "default";  // theta alone
inline constexpr std::string_view kLlama3Rope = "llama3";

// The files' own names. The last four are of llama3 only, and stay at their first values otherwise.
struct RopeConfig {
  std::string rope_type{kDefaultRope};
  double rope_theta = 0;
  double factor = 1;
  double low_freq_factor = 1;
  double high_freq_factor = 1;
  std::int64_t original_max_position_embeddings = 0;

  bool operator==(const RopeConfig&) const = default;
};

// `fields` is the whole configuration.
RopeConfig read_rope_config(const JsonFields& fields);

// Appends rope_theta, rope_scaling and rope_parameters: both spellings, since older loaders know the first.
void write_rope_config(const RopeConfig& rope, JsonObject& out);

}  // namespace draftsmith
