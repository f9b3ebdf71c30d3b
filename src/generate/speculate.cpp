#include "generate/speculate.h"

#include <algorithm>
#include <chrono>

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

// Drafts and verifies one block; `block` holds the newest token in slot 0. Afterwards choices[accepted] is
// the bonus.
std::int64_t run_cycle(Decoder& decoder, std::span<std::int32_t> block, std::span<std::int32_t> choices) {
  const std::span<std::int32_t> proposals = block.subspan(1);
  decoder.draft(block[0], proposals);
  decoder.verify(block, choices);
  const std::int64_t accepted = count_accepted(proposals, choices);
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

PromptState run_prompt(Decoder& decoder, std::span<const std::int32_t> prompt) {
  const Stopwatch watch;
  const std::int32_t first = decoder.prefill(prompt);
  return {
      .length = static_cast<std::int64_t>(prompt.size()), .first_token = first, .seconds = watch.seconds()};
}

GenerationResult decode_speculatively(Decoder& decoder, const PromptState& prompt,
                                      const GenerationSettings& settings,
                                      const GenerationObserver& observer) {
  GenerationResult result = begin(decoder, prompt, settings);
  if (observer) observer(result.tokens, nullptr);
  std::vector<std::int32_t> block(static_cast<std::size_t>(decoder.block_size()));
  std::vector<std::int32_t> choices(block.size());
  const Stopwatch watch;
  while (!is_complete(result, settings)) {
    block[0] = result.tokens.back();
    const std::int64_t accepted = run_cycle(decoder, block, choices);
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
  const Stopwatch watch;
  while (!is_complete(result, settings)) result.tokens.push_back(decoder.step(result.tokens.back()));
  result.seconds = watch.seconds();
  return result;
}

}  // namespace draftsmith
