// Rotary position embedding as configurations state it. Two spellings are read:
//   transformers 4: rope_theta, and rope_scaling null or {"rope_type" or "type", ...}
//   transformers 5: rope_parameters {"rope_theta", "rope_type", ...}
// A file may hold both when they agree. Nothing is guessed: a missing theta, a type that is not supported, a
// yarn scaling that does not say from which length it stretches, and rotation of a part of the head are
// Errors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "data/json_fields.h"

namespace draftsmith {

inline constexpr std::string_view kDefaultRope = "default";  // theta alone
inline constexpr std::string_view kLinearRope = "linear";
inline constexpr std::string_view kLlama3Rope = "llama3";
inline constexpr std::string_view kYarnRope = "yarn";

// The files' own names. What a type does not use stays at its first value.
struct RopeConfig {
  std::string rope_type{kDefaultRope};
  double rope_theta = 0;
  double factor = 1;                                  // all but default
  double low_freq_factor = 1;                         // llama3
  double high_freq_factor = 1;                        // llama3
  std::int64_t original_max_position_embeddings = 0;  // llama3, yarn
  // yarn: absent keys have these values, or no value.
  double beta_fast = 32;
  double beta_slow = 1;
  bool truncate = true;
  std::optional<double> attention_factor;
  std::optional<double> mscale;
  std::optional<double> mscale_all_dim;

  bool operator==(const RopeConfig&) const = default;
};

// `fields` is the whole configuration.
RopeConfig read_rope_config(const JsonFields& fields);

// Appends rope_theta, rope_scaling and rope_parameters: both spellings, since older loaders know the first.
void write_rope_config(const RopeConfig& rope, JsonObject& out);

}  // namespace draftsmith
