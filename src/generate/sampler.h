// Sampling from the target's distribution, plainly and speculatively (DFlash notes, section 7; Leviathan et
// al., arXiv 2211.17192). With p the target's and q the drafter's distribution after the same text, a proposal
// x drawn from q is accepted if u q(x) < p(x); the first that is rejected is replaced by a draw from
// max(p - q, 0) renormalised. What is committed then follows p exactly, whatever q is. A greedy proposal is a
// draw from the q that is certain of it. Temperature and top-p shape p and q alike.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace draftsmith {

struct SamplingSettings {
  double temperature = 0;      // of the softmax; 0 is greedy: the most probable token, always
  double top_p = 1;            // in (0, 1]: mass of the nucleus
  bool greedy_drafts = false;  // propose the drafter's most probable tokens instead of drawing from it
  std::uint64_t seed = 0;
  std::uint32_t sequence = 0;  // sequences of one seed that differ here draw independent numbers

  bool is_greedy() const { return temperature == 0; }
};

// Throws Error, saying the range, for a temperature or a top-p outside of it.
void check_sampling(const SamplingSettings& settings);

// Turns a row of logits into probabilities: softmax(logits / temperature), cut to the nucleus and
// renormalised. The nucleus is the smallest set of most probable tokens whose mass is at least top_p; of equal
// tokens the lower id is in first. The temperature is above 0.
class DistributionShaper {
 public:
  DistributionShaper(const SamplingSettings& settings, std::int64_t vocabulary);

  // Both [vocabulary].
  void shape(std::span<const float> logits, std::span<double> probabilities);

 private:
  void cut_to_nucleus(std::span<double> weights);

  const double temperature_, top_p_;
  std::vector<std::int32_t> heap_;  // [vocabulary], scratch: the most probable token left is in front
};

// The token in whose share of the weights' sum `uniform`, in [0, 1), falls. Weights need no normalisation; a
// token of weight 0 is never drawn.
std::int32_t draw_token(std::span<const double> weights, double uniform);

// p becomes max(p - q, 0), not normalised; it stays as it is where that is 0 everywhere.
void keep_residual(std::span<double> p, std::span<const double> q);

// Draws the tokens of one sequence. Numbers are a pure function of (seed, sequence, position, what for): what
// a sequence holds depends on no step's length. A position that is drafted again, because the block before it
// was cut, sees the same numbers; nothing was decided by them yet. All memory is taken at construction.
class TokenSampler {
 public:
  // proposals: of a block; 0 for plain decoding. The temperature is above 0.
  TokenSampler(const SamplingSettings& settings, std::int64_t vocabulary, std::int64_t proposals);

  // From the target's logits, [vocabulary], the token at `position`.
  std::int32_t choose(std::span<const float> logits, std::int64_t position);

  // Proposals for positions first_position and on, [proposals], from the drafter's logits,
  // [proposals, vocabulary]; greedy ones are the caller's and stay. Keeps their distributions for verify().
  void draft(Matrix<const float> logits, std::int64_t first_position, std::span<std::int32_t> proposals);

  // Judges the last draft by the target's logits, [proposals + 1, vocabulary]: row i is for position
  // first_position + i. Returns how many proposals are accepted; choices, [proposals + 1], holds these and the
  // target's own token after them, and nothing else is written.
  std::int64_t verify(Matrix<const float> logits, std::int64_t first_position,
                      std::span<const std::int32_t> proposals, std::span<std::int32_t> choices);

 private:
  enum class Purpose : std::uint32_t { draft, acceptance, target };

  std::span<double> drafted(std::size_t proposal);
  double uniform(Purpose purpose, std::int64_t position) const;

  const SamplingSettings settings_;
  DistributionShaper shaper_;
  std::vector<double> target_;   // [vocabulary]: p of one position
  std::vector<double> drafter_;  // [proposals, vocabulary]: q of the last draft
};

}  // namespace draftsmith
