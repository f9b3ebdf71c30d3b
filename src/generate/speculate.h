// Speculative decoding with a block drafter, and plain decoding to compare with (DFlash, arXiv 2602.06036):
//   draft a block after the newest token, verify it in one pass of the target, commit the longest prefix of
//   proposals that the target would have chosen itself, and the target's own choice after it (the bonus).
// The block is always block_size wide; proposals past the length limit are discarded. The features that the
// drafter sees are those of the verifying pass. Greedy: every token is the target's argmax, so speculative
// and plain output are the same. At a temperature above 0 both are draws from the target's distribution
// (generate/sampler.h): not the same tokens, but equally probable ones.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "generate/decoder.h"
#include "generate/sampler.h"

namespace draftsmith {

struct GenerationSettings {
  std::int64_t max_new_tokens = 256;
  std::vector<std::int32_t> stop_tokens;  // the output ends with the first of them
  SamplingSettings sampling;
};

// A prompt that a decoder's caches hold.
struct PromptState {
  std::int64_t length = 0;       // tokens
  std::int32_t first_token = 0;  // the target's choice after it
  double seconds = 0;            // that its passes took
};

struct DraftCycle {
  std::vector<std::int32_t> proposals;  // [block_size - 1]
  std::int64_t accepted = 0;            // proposals committed
  std::int64_t committed = 0;  // tokens: proposals, and the bonus unless a stop or the limit came first
};

struct GenerationResult {
  std::vector<std::int32_t> tokens;  // the prompt's first choice, then what was decoded; a stop token is kept
  std::vector<DraftCycle> cycles;    // of speculative decoding
  double seconds = 0;                // of decoding, the prompt excluded

  // Tokens that decoding made: all but the first.
  std::int64_t decoded() const { return static_cast<std::int64_t>(tokens.size()) - 1; }
};

// Called after each cycle, and once before them with the first token and no cycle.
using GenerationObserver =
    std::function<void(std::span<const std::int32_t> committed, const DraftCycle* cycle)>;

// Proposals before the first that differs from the target's choice at its place. choices[j] follows slot j.
std::int64_t count_accepted(std::span<const std::int32_t> proposals, std::span<const std::int32_t> choices);

PromptState run_prompt(Decoder& decoder, std::span<const std::int32_t> prompt,
                       const SamplingSettings& sampling = {});

// Both start behind the prompt, whatever was decoded since.
GenerationResult decode_speculatively(Decoder& decoder, const PromptState& prompt,
                                      const GenerationSettings& settings,
                                      const GenerationObserver& observer = {});
GenerationResult decode_plainly(Decoder& decoder, const PromptState& prompt,
                                const GenerationSettings& settings);

}  // namespace draftsmith
