// Real speculative decoding of held-out conversations: what a drafter is worth when it serves. Every prompt
// is decoded speculatively and plainly, from the same caches; greedy outputs must agree token for token. At a
// temperature above 0 the two are different draws of one distribution, and no equality is claimed.
// Acceptance is tokens committed by draft cycles over cycles, summed over conversations (DFlash notes,
// section 8, "Ours"): the prompt's own choice is not counted, and a cycle that is cut counts up to the cut.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "generate/speculate.h"

namespace draftsmith {

struct AcceptanceSums {
  std::int64_t conversations = 0;
  std::int64_t cycles = 0;
  std::int64_t committed = 0;  // tokens, by the cycles

  // None without cycles.
  std::optional<double> tokens_per_cycle() const;
};

struct DomainAcceptance {
  std::string name;
  AcceptanceSums sums;
};

// How fast one way of decoding was; prompts are excluded.
struct DecodingRate {
  std::int64_t tokens = 0;
  double seconds = 0;

  // None where nothing was decoded.
  std::optional<double> tokens_per_second() const;
};

struct EvaluationReport {
  AcceptanceSums pooled;
  std::vector<DomainAcceptance> domains;  // in order of first appearance
  std::vector<std::int64_t> accepted;  // [block_size - 1]: cycles that committed the proposal at offset i + 1
  SamplingSettings sampling;
  std::optional<std::int64_t> greedy_equal;  // conversations whose two outputs are the same; only if greedy
  DecodingRate speculative, plain;
  double seconds = 0;  // of all, prompts included

  // Plain time per token over speculative time per token; none where nothing was decoded.
  std::optional<double> speed_up() const;
};

struct EvaluationRun {
  const Corpus& corpus;
  std::int64_t conversations = 0;                   // the first so many
  GenerationSettings generation;                    // conversation i samples as sequence i
  std::function<void(std::int64_t done)> progress;  // after every conversation; may be empty
};

// Tokens of the longest sequence that the run decodes: what DecoderSettings::longest must allow.
std::int64_t longest_sequence(const EvaluationRun& run);

EvaluationReport evaluate_drafter(Decoder& decoder, const EvaluationRun& run);

// {"pooled", "domains": {name: tokens per cycle}, "by_offset": [shares], "greedy_equal", "conversations",
// "seconds", and the rates}, null where nothing was measured: docs/formats.md. Replaces the file in one step.
void write_evaluation(const std::filesystem::path& path, const EvaluationReport& report);

// Throws Error where write_evaluation(path) would, and where it would replace a file that is neither empty nor an earlier
// result. For asking before long work.
void check_evaluation_path(const std::filesystem::path& path);

// A table by domain, the share accepted by offset, equality and rates.
void print_evaluation(std::ostream& out, const EvaluationReport& report);

}  // namespace draftsmith
