#include "generate/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/core.h>

#include "base/error.h"
#include "base/random.h"

namespace draftsmith {
namespace {

std::span<const float> row_of(const Matrix<const float>& logits, std::size_t row) {
  return {logits.row(static_cast<std::int64_t>(row)), static_cast<std::size_t>(logits.columns)};
}

}  // namespace

void check_sampling(const SamplingSettings& settings) {
  if (!(settings.temperature >= 0) || std::isinf(settings.temperature)) {
    throw Error(
        fmt::format("temperature is {}; expected a number of 0 (greedy) or more", settings.temperature));
  }
  if (!(settings.top_p > 0 && settings.top_p <= 1)) {
    throw Error(
        fmt::format("top-p is {}; expected a number above 0 and up to 1 (every token)", settings.top_p));
  }
}

DistributionShaper::DistributionShaper(const SamplingSettings& settings, std::int64_t vocabulary)
    : temperature_(settings.temperature),
      top_p_(settings.top_p),
      heap_(static_cast<std::size_t>(vocabulary)) {
  check_sampling(settings);
  DRAFTSMITH_CHECK(temperature_ > 0, "greedy decoding draws nothing");
}

void DistributionShaper::shape(std::span<const float> logits, std::span<double> probabilities) {
  DRAFTSMITH_CHECK(logits.size() == heap_.size() && probabilities.size() == logits.size(),
                   "a row has the vocabulary's tokens");
  const double highest = *std::max_element(logits.begin(), logits.end());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    probabilities[i] = std::exp((logits[i] - highest) / temperature_);
  }
  if (top_p_ < 1) cut_to_nucleus(probabilities);
  const double sum = std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
  for (double& probability : probabilities) probability /= sum;
}

// Only the nucleus is sorted: it is small where the vocabulary is large.
void DistributionShaper::cut_to_nucleus(std::span<double> weights) {
  const auto less_probable = [&](std::int32_t a, std::int32_t b) {
    return weights[a] != weights[b] ? weights[a] < weights[b] : a > b;
  };
  std::iota(heap_.begin(), heap_.end(), 0);
  std::make_heap(heap_.begin(), heap_.end(), less_probable);
  const double enough = top_p_ * std::accumulate(weights.begin(), weights.end(), 0.0);
  double mass = 0;
  auto outside = heap_.end();
  while (outside != heap_.begin() && mass < enough) {
    mass += weights[heap_.front()];
    std::pop_heap(heap_.begin(), outside, less_probable);
    --outside;
  }
  std::for_each(heap_.begin(), outside, [&](std::int32_t token) { weights[token] = 0; });
}

std::int32_t draw_token(std::span<const double> weights, double uniform) {
  const double place = uniform * std::accumulate(weights.begin(), weights.end(), 0.0);
  double passed = 0;
  std::int32_t last = -1;  // where the product above was rounded up to the sum, the last token's share
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    last = static_cast<std::int32_t>(i);
    passed += weights[i];
    if (place < passed) break;
  }
  DRAFTSMITH_CHECK(last >= 0, "some token has a weight");
  return last;
}

void keep_residual(std::span<double> p, std::span<const double> q) {
  bool any = false;
  for (std::size_t i = 0; i < p.size(); ++i) any = any || p[i] > q[i];
  if (!any) return;
  for (std::size_t i = 0; i < p.size(); ++i) p[i] = std::max(p[i] - q[i], 0.0);
}

TokenSampler::TokenSampler(const SamplingSettings& settings, std::int64_t vocabulary, std::int64_t proposals)
    : settings_(settings),
      shaper_(settings, vocabulary),
      target_(static_cast<std::size_t>(vocabulary)),
      drafter_(static_cast<std::size_t>(vocabulary * proposals)) {}

std::span<double> TokenSampler::drafted(std::size_t proposal) {
  return std::span(drafter_).subspan(proposal * target_.size(), target_.size());
}

double TokenSampler::uniform(Purpose purpose, std::int64_t position) const {
  const Random random(settings_.seed, RandomStream::sampling, settings_.sequence,
                      static_cast<std::uint32_t>(purpose));
  return random.uniform(static_cast<std::uint64_t>(position));
}

std::int32_t TokenSampler::choose(std::span<const float> logits, std::int64_t position) {
  shaper_.shape(logits, target_);
  return draw_token(target_, uniform(Purpose::target, position));
}

void TokenSampler::draft(Matrix<const float> logits, std::int64_t first_position,
                         std::span<std::int32_t> proposals) {
  DRAFTSMITH_CHECK(proposals.size() * target_.size() == drafter_.size(), "a distribution a proposal");
  for (std::size_t i = 0; i < proposals.size(); ++i) {
    const std::span<double> q = drafted(i);
    if (settings_.greedy_drafts) {
      std::fill(q.begin(), q.end(), 0.0);
      q[proposals[i]] = 1;
    } else {
      shaper_.shape(row_of(logits, i), q);
      proposals[i] = draw_token(q, uniform(Purpose::draft, first_position + static_cast<std::int64_t>(i)));
    }
  }
}

std::int64_t TokenSampler::verify(Matrix<const float> logits, std::int64_t first_position,
                                  std::span<const std::int32_t> proposals, std::span<std::int32_t> choices) {
  DRAFTSMITH_CHECK(choices.size() == proposals.size() + 1, "a choice after every slot");
  std::size_t accepted = 0;
  for (; accepted < proposals.size(); ++accepted) {
    const std::int32_t proposal = proposals[accepted];
    const std::span<const double> q = drafted(accepted);
    const auto position = first_position + static_cast<std::int64_t>(accepted);
    shaper_.shape(row_of(logits, accepted), target_);
    if (uniform(Purpose::acceptance, position) * q[proposal] < target_[proposal]) {
      choices[accepted] = proposal;
      continue;
    }
    keep_residual(target_, q);
    choices[accepted] = draw_token(target_, uniform(Purpose::target, position));
    return static_cast<std::int64_t>(accepted);
  }
  choices[accepted] = choose(row_of(logits, accepted), first_position + static_cast<std::int64_t>(accepted));
  return static_cast<std::int64_t>(accepted);
}

}  // namespace draftsmith
