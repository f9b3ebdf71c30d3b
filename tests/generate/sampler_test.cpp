#include "generate/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "generate/speculate.h"
#include "support/chi_square.h"
#include "support/expect_error.h"
#include "support/markov_decoder.h"
#include "support/spec_tiny.h"

namespace draftsmith {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kDoubt = 1e-6;  // a p-value below this does not happen to a correct sampler

std::vector<double> shape(const std::vector<float>& logits, const SamplingSettings& settings) {
  DistributionShaper shaper(settings, static_cast<std::int64_t>(logits.size()));
  std::vector<double> probabilities(logits.size());
  shaper.shape(logits, probabilities);
  return probabilities;
}

TEST(ChiSquareTest, TheTailHasTheValuesOfTheTables) {
  EXPECT_NEAR(chi_square_tail(3.841458820694124, 1), 0.05, 1e-12);
  EXPECT_NEAR(chi_square_tail(9.487729036781154, 4), 0.05, 1e-12);
  EXPECT_NEAR(chi_square_tail(24.99579013972863, 15), 0.05, 1e-12);
}

// Four equal tokens have weights of exactly 1, so that the edge is exact too.
TEST(SamplerTest, TheNucleusIsTheSmallestSetThatHasTheMass) {
  const std::vector<float> equal(4, 2.5f);
  using Row = std::vector<double>;
  EXPECT_EQ(shape(equal, {.temperature = 1, .top_p = 0.5}), (Row{0.5, 0.5, 0, 0}));
  const double above_half = std::nextafter(0.5, 1.0), below_half = std::nextafter(0.5, 0.0);
  EXPECT_EQ(shape(equal, {.temperature = 1, .top_p = above_half}), (Row{1.0 / 3, 1.0 / 3, 1.0 / 3, 0}));
  EXPECT_EQ(shape(equal, {.temperature = 1, .top_p = below_half}), (Row{0.5, 0.5, 0, 0}));
  EXPECT_EQ(shape(equal, {.temperature = 1, .top_p = 1e-300}), (Row{1, 0, 0, 0}));
  EXPECT_EQ(shape(equal, {.temperature = 1, .top_p = 1}), (Row{0.25, 0.25, 0.25, 0.25}));
  EXPECT_EQ(shape({0, 3, 1, 3}, {.temperature = 1, .top_p = 0.6}), (Row{0, 0.5, 0, 0.5}));
}

TEST(SamplerTest, WithoutTopPEveryPossibleTokenKeepsItsShare) {
  const auto row = shape({0, -30, -std::numeric_limits<float>::infinity()}, {.temperature = 1});
  EXPECT_NEAR(row[1], std::exp(-30.0), 1e-15 * std::exp(-30.0) + std::exp(-60.0));
  EXPECT_EQ(row[2], 0);
}

TEST(SamplerTest, TheTemperatureDividesTheLogits) {
  const auto row = shape({4, 0}, {.temperature = 2});
  EXPECT_NEAR(row[0] / row[1], std::exp(2.0), 4 * std::numeric_limits<double>::epsilon() * std::exp(2.0));
  EXPECT_EQ(shape({4, 5, 3}, {.temperature = 1e-30}), (std::vector<double>{0, 1, 0}));
}

TEST(SamplerTest, ATokenIsDrawnForItsShareOfTheNumbers) {
  const std::vector<double> weights{1, 0, 3, 0};
  EXPECT_EQ(draw_token(weights, 0), 0);
  EXPECT_EQ(draw_token(weights, std::nextafter(0.25, 0.0)), 0);
  EXPECT_EQ(draw_token(weights, 0.25), 2);
  EXPECT_EQ(draw_token(weights, std::nextafter(1.0, 0.0)), 2);
}

TEST(SamplerTest, TheResidualIsWhatTheDrafterProposesTooSeldom) {
  std::vector<double> p{0.5, 0.5, 0};
  keep_residual(p, std::vector<double>{0.75, 0, 0.25});
  EXPECT_EQ(p, (std::vector<double>{0, 0.5, 0}));
  const std::vector<double> same{0.25, 0.75};
  p = same;
  keep_residual(p, same);
  EXPECT_EQ(p, same);
}

TEST(SamplerTest, SettingsOutOfRangeAreRefused) {
  for (const double temperature : {-0.5, -kInfinity, kInfinity, std::nan("")}) {
    expect_error([&] { check_sampling({.temperature = temperature}); },
                 {"temperature is", "expected a number of 0 (greedy) or more"});
  }
  for (const double top_p : {0.0, -1.0, 1.5, std::nan("")}) {
    expect_error([&] { check_sampling({.top_p = top_p}); },
                 {"top-p is", "expected a number above 0 and up to 1"});
  }
  expect_error([] { check_sampling({.temperature = -0.5}); }, {"-0.5"});
  check_sampling({.temperature = 0, .top_p = 1});
}

enum class Way { plain, speculative };

struct Case {
  const char* name;
  Way way;
  SamplingSettings sampling;
};

// Rows where the drafter proposes what the target never says, never proposes what it says, and agrees.
const MarkovModels kModels{.target = {{0.4, 0.3, 0.2, 0.1, 0},
                                      {0.05, 0.15, 0, 0.5, 0.3},
                                      {0.26, 0.24, 0.22, 0.18, 0.1},
                                      {0, 0.9, 0.02, 0.03, 0.05},
                                      {0.35, 0, 0.25, 0.12, 0.28}},
                           .drafter = {{0.1, 0.2, 0.15, 0.05, 0.5},
                                       {0.3, 0.32, 0.33, 0.05, 0},
                                       {0.26, 0.24, 0.22, 0.18, 0.1},
                                       {0.6, 0.25, 0, 0.1, 0.05},
                                       {0, 0, 0, 1, 0}}};
constexpr std::size_t kVocabulary = 5;
constexpr std::int64_t kDraws = 20000, kTokens = 5;

// What the formulas say, from the probabilities themselves.
std::vector<double> shaped(const std::vector<double>& row, const SamplingSettings& settings) {
  std::vector<double> power, result(row.size());
  for (const double p : row) power.push_back(std::pow(p, 1 / settings.temperature));
  const double all = std::accumulate(power.begin(), power.end(), 0.0);
  double mass = 0;
  while (mass < settings.top_p * all * (1 - 1e-12)) {
    const auto best = std::max_element(power.begin(), power.end());
    mass += *best;
    result[static_cast<std::size_t>(best - power.begin())] = *best;
    *best = 0;
  }
  for (double& p : result) p /= mass;
  return result;
}

class SpeculativeSamplingTest : public testing::TestWithParam<Case> {
 protected:
  SpeculativeSamplingTest() {
    MarkovDecoder decoder(kModels, 3);
    GenerationSettings settings{.max_new_tokens = kTokens, .sampling = GetParam().sampling};
    settings.sampling.seed = 17;
    const std::int32_t prompt = 0;
    for (std::int64_t i = 0; i < kDraws; ++i) {
      settings.sampling.sequence = static_cast<std::uint32_t>(i);
      const PromptState state = run_prompt(decoder, {&prompt, 1}, settings.sampling);
      results_.push_back(GetParam().way == Way::plain ? decode_plainly(decoder, state, settings)
                                                      : decode_speculatively(decoder, state, settings));
    }
    for (const auto& row : kModels.target) target_.push_back(shaped(row, GetParam().sampling));
  }

  // [vocabulary]: of the token at an index of the output, by the target alone.
  std::vector<double> marginal(std::int64_t index) const {
    std::vector<double> now = target_[0];
    for (std::int64_t step = 0; step < index; ++step) {
      std::vector<double> next(kVocabulary);
      for (std::size_t a = 0; a < kVocabulary; ++a) {
        for (std::size_t b = 0; b < kVocabulary; ++b) next[b] += now[a] * target_[a][b];
      }
      now = next;
    }
    return now;
  }

  std::vector<GenerationResult> results_;
  std::vector<std::vector<double>> target_;  // the shaped rows
};

TEST_P(SpeculativeSamplingTest, EveryTokenFollowsTheTargetsDistribution) {
  for (std::int64_t index = 0; index < kTokens; ++index) {
    std::vector<std::int64_t> counts(kVocabulary);
    for (const GenerationResult& result : results_) ++counts[result.tokens[index]];
    EXPECT_GT(fit_p_value(counts, marginal(index)), kDoubt) << index;
    EXPECT_LT(fit_p_value(counts, shaped(kModels.drafter[0], GetParam().sampling)), kDoubt) << index;
  }
}

// Pairs lie within a cycle, across two, and on either side of a rejection.
TEST_P(SpeculativeSamplingTest, EveryPairOfTokensFollowsTheTargetsJointDistribution) {
  for (std::int64_t index = 0; index + 1 < kTokens; ++index) {
    std::vector<std::int64_t> counts(kVocabulary * kVocabulary);
    for (const GenerationResult& result : results_) {
      ++counts[static_cast<std::size_t>(result.tokens[index]) * kVocabulary + result.tokens[index + 1]];
    }
    const std::vector<double> first = marginal(index), second = marginal(index + 1);
    std::vector<double> joint, independent;
    for (std::size_t a = 0; a < kVocabulary; ++a) {
      for (std::size_t b = 0; b < kVocabulary; ++b) {
        joint.push_back(first[a] * target_[a][b]);
        independent.push_back(first[a] * second[b]);
      }
    }
    EXPECT_GT(fit_p_value(counts, joint), kDoubt) << index;
    EXPECT_LT(fit_p_value(counts, independent), kDoubt) << index;
  }
}

// A draw from q is accepted with probability sum min(p, q); a certain q makes this p of its token.
TEST_P(SpeculativeSamplingTest, TheFirstProposalIsAcceptedAsOftenAsTheDistributionsOverlap) {
  if (GetParam().way == Way::plain) {
    for (const GenerationResult& result : results_) ASSERT_TRUE(result.cycles.empty());
    return;
  }
  double expected = 0;
  for (std::size_t newest = 0; newest < kVocabulary; ++newest) {
    const std::vector<double>& drafted = kModels.drafted(static_cast<std::int32_t>(newest), 0);
    std::vector<double> q = shaped(drafted, GetParam().sampling);
    if (GetParam().sampling.greedy_drafts) {
      const auto best = std::max_element(drafted.begin(), drafted.end()) - drafted.begin();
      q.assign(kVocabulary, 0);
      q[static_cast<std::size_t>(best)] = 1;
    }
    for (std::size_t x = 0; x < kVocabulary; ++x) {
      expected += target_[0][newest] * std::min(target_[newest][x], q[x]);
    }
  }
  std::int64_t accepted = 0;
  for (const GenerationResult& result : results_) accepted += result.cycles[0].accepted >= 1 ? 1 : 0;
  const double standard_error = std::sqrt(expected * (1 - expected) / kDraws);
  EXPECT_NEAR(static_cast<double>(accepted) / kDraws, expected, 5 * standard_error);
}

INSTANTIATE_TEST_SUITE_P(
    All, SpeculativeSamplingTest,
    testing::Values(Case{"plain", Way::plain, {.temperature = 1}},
                    Case{"sampled", Way::speculative, {.temperature = 1}},
                    Case{"sampled_cool_nucleus", Way::speculative, {.temperature = 0.7, .top_p = 0.8}},
                    Case{"greedy_drafts", Way::speculative, {.temperature = 1, .greedy_drafts = true}},
                    Case{"greedy_drafts_hot_nucleus",
                         Way::speculative,
                         {.temperature = 1.3, .top_p = 0.85, .greedy_drafts = true}}),
    [](const auto& info) { return std::string(info.param.name); });

// The models of spec_tiny, after the first prompt.
class TinySampling : public testing::Test {
 protected:
  std::vector<std::int32_t> tokens(const GenerationSettings& settings) {
    return decode_speculatively(*decoder_, run_prompt(*decoder_, prompt_, settings.sampling), settings)
        .tokens;
  }

  const SpecTiny tiny_;
  const std::unique_ptr<Decoder> decoder_ = tiny_.decoder(DType::float32, {.longest = SpecTiny::kLength});
  const std::vector<std::int32_t> prompt_ = tiny_.prompt(0);
};

TEST_F(TinySampling, TheSeedAndTheSequenceNameTheOutput) {
  const SamplingSettings sampling{.temperature = 2, .seed = 5};
  const auto output = tokens({.max_new_tokens = 40, .sampling = sampling});
  EXPECT_EQ(tokens({.max_new_tokens = 40, .sampling = sampling}), output);
  SamplingSettings other = sampling;
  other.seed = 6;
  EXPECT_NE(tokens({.max_new_tokens = 40, .sampling = other}), output);
  other = sampling;
  other.sequence = 1;
  EXPECT_NE(tokens({.max_new_tokens = 40, .sampling = other}), output);
}

TEST_F(TinySampling, AShorterOutputIsTheBeginningOfALongerOne) {
  const SamplingSettings sampling{.temperature = 1.5, .seed = 5};
  const auto longer = tokens({.max_new_tokens = 40, .sampling = sampling});
  for (const std::int64_t count : {1, 2, 5, 17}) {
    const std::vector<std::int32_t> beginning(longer.begin(), longer.begin() + count);
    EXPECT_EQ(tokens({.max_new_tokens = count, .sampling = sampling}), beginning);
  }
}

TEST_F(TinySampling, ATemperatureNextToZeroIsGreedy) {
  const auto greedy = tokens({.max_new_tokens = 40});
  for (const bool greedy_drafts : {false, true}) {
    const GenerationSettings settings{.max_new_tokens = 40,
                                      .sampling = {.temperature = 1e-9, .greedy_drafts = greedy_drafts}};
    EXPECT_EQ(tokens(settings), greedy);
    const PromptState state = run_prompt(*decoder_, prompt_, settings.sampling);
    EXPECT_EQ(decode_plainly(*decoder_, state, settings).tokens, greedy);
  }
}

TEST_F(TinySampling, TheTokenAfterTheFirstFollowsTheTargetsSoftmax) {
  const PromptState state = run_prompt(*decoder_, prompt_);
  decoder_->step(state.first_token);
  const Matrix<const float> logits = decoder_->logits();
  const std::vector<float> row(logits.row(0), logits.row(0) + logits.columns);
  GenerationSettings settings{.max_new_tokens = 2, .sampling = {.temperature = 2, .seed = 3}};
  const std::vector<double> expected = shape(row, settings.sampling);
  std::vector<std::int64_t> counts(row.size());
  for (std::uint32_t i = 0; i < 1000; ++i) {
    settings.sampling.sequence = i;
    ++counts[decode_speculatively(*decoder_, state, settings).tokens[1]];
  }
  EXPECT_GT(fit_p_value(counts, expected), kDoubt);
}

}  // namespace
}  // namespace draftsmith
