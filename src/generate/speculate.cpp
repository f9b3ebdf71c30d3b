#include "generate/speculate.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/error.h"

namespace draftsmith {
namespace {

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

bool is_stop(const GenerationSettings& settings, std::int32_t token) {
  return std::find(settings.stop_tokens.begin(), settings.stop_tokens.end(), token) !=
         settings.stop_tokens.end();
}

bool is_complete(const GenerationResult& result, const GenerationSettings& settings) {
  return is_stop(settings, result.tokens.back()) ||
         static_cast<std::int64_t>(result.tokens.size()) >= settings.max_new_tokens;
}

// How many of the tokens that a cycle verified belong to the output: up to and including a stop token, and
// no more than the limit leaves.
std::int64_t cut(std::span<const std::int32_t> verified, std::int64_t limit,
                 const GenerationSettings& settings) {
  const std::int64_t most = std::min(limit, static_cast<std::int64_t>(verified.size()));
  for (std::int64_t i = 0; i < most; ++i) {
    if (is_stop(settings, verified[i])) return i + 1;
  }
  return most;
}

GenerationResult begin(Decoder& decoder, const PromptState& prompt, const GenerationSettings& settings) {
  DRAFTSMITH_CHECK(prompt.length + settings.max_new_tokens <= decoder.settings().longest,
                   "the decoder was made for sequences of this length");
  DRAFTSMITH_CHECK(settings.max_new_tokens >= 1, "the prompt's own choice is the first token");
  decoder.rewind(prompt.length);
  GenerationResult result;
  result.tokens.push_back(prompt.first_token);
  return result;
}

// The target's logits after a prompt or a step.
std::span<const float> only_row(const Decoder& decoder) {
  const Matrix<const float> logits = decoder.logits();
  return {logits.row(0), static_cast<std::size_t>(logits.columns)};
}

// Nothing for greedy decoding.
std::optional<TokenSampler> make_sampler(const Decoder& decoder, const SamplingSettings& settings,
                                         std::int64_t proposals) {
  if (settings.is_greedy()) return std::nullopt;
  return TokenSampler(settings, decoder.logits().columns, proposals);
}

// Drafts and verifies one block; `block` holds the newest token in slot 0. Afterwards choices[accepted] is
// the bonus.
std::int64_t run_cycle(Decoder& decoder, std::optional<TokenSampler>& sampler, std::span<std::int32_t> block,
                       std::span<std::int32_t> choices) {
  const std::span<std::int32_t> proposals = block.subspan(1);
  const std::int64_t first = decoder.length() + 1;  // position of the first proposal
  decoder.draft(block[0], proposals);
  if (sampler) sampler->draft(decoder.logits(), first, proposals);
  decoder.verify(block, choices);
  const std::int64_t accepted = sampler ? sampler->verify(decoder.logits(), first, proposals, choices)
                                        : count_accepted(proposals, choices);
  decoder.commit(accepted + 1);
  return accepted;
}

}  // namespace

std::int64_t count_accepted(std::span<const std::int32_t> proposals, std::span<const std::int32_t> choices) {
  DRAFTSMITH_CHECK(choices.size() == proposals.size() + 1, "a choice after every slot");
  std::size_t accepted = 0;
  while (accepted < proposals.size() && proposals[accepted] == choices[accepted]) ++accepted;
  return static_cast<std::int64_t>(accepted);
}

PromptState run_prompt(Decoder& decoder, std::span<const std::int32_t> prompt,
                       const SamplingSettings& sampling) {
  const Stopwatch watch;
  const std::int32_t choice = decoder.prefill(prompt);
  std::optional<TokenSampler> sampler = make_sampler(decoder, sampling, 0);
  return {.length = decoder.length(),
          .first_token = sampler ? sampler->choose(only_row(decoder), decoder.length()) : choice,
          .seconds = watch.seconds()};
}

GenerationResult decode_speculatively(Decoder& decoder, const PromptState& prompt,
                                      const GenerationSettings& settings,
                                      const GenerationObserver& observer) {
  GenerationResult result = begin(decoder, prompt, settings);
  if (observer) observer(result.tokens, nullptr);
  std::vector<std::int32_t> block(static_cast<std::size_t>(decoder.block_size()));
  std::vector<std::int32_t> choices(block.size());
  std::optional<TokenSampler> sampler = make_sampler(decoder, settings.sampling, decoder.block_size() - 1);
  const Stopwatch watch;
  while (!is_complete(result, settings)) {
    block[0] = result.tokens.back();
    const std::int64_t accepted = run_cycle(decoder, sampler, block, choices);
    // choices[0 .. accepted - 1] are the accepted proposals, choices[accepted] is the bonus.
    const std::span<const std::int32_t> verified(choices.data(), static_cast<std::size_t>(accepted) + 1);
    const auto limit = settings.max_new_tokens - static_cast<std::int64_t>(result.tokens.size());
    const std::int64_t committed = cut(verified, limit, settings);
    result.tokens.insert(result.tokens.end(), verified.begin(), verified.begin() + committed);
    result.cycles.push_back({.proposals = {block.begin() + 1, block.end()},
                             .accepted = std::min(accepted, committed),
                             .committed = committed});
    if (observer) observer(verified.first(static_cast<std::size_t>(committed)), &result.cycles.back());
  }
  result.seconds = watch.seconds();
  return result;
}

GenerationResult decode_plainly(Decoder& decoder, const PromptState& prompt,
                                const GenerationSettings& settings) {
  GenerationResult result = begin(decoder, prompt, settings);
  std::optional<TokenSampler> sampler = make_sampler(decoder, settings.sampling, 0);
  const Stopwatch watch;
  while (!is_complete(result, settings)) {
    const std::int32_t choice = decoder.step(result.tokens.back());
    result.tokens.push_back(sampler ? sampler->choose(only_row(decoder), decoder.length()) : choice);
  }
  result.seconds = watch.seconds();
  return result;
}

}  // namespace draftsmith
