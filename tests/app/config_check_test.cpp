#include "app/config_check.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace draftsmith {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// What is found when `spoil` has changed a sound configuration: "option: message", one a line.
std::string findings_after(const std::function<void(RunConfig&)>& spoil) {
  RunConfig config;
  config.target = "folder";
  config.data.train = "train.jsonl";
  config.output = "runs/one";
  spoil(config);
  std::string text;
  for (const ConfigFinding& finding : check_config(config))
    text += finding.option + ": " + finding.message + "\n";
  return text;
}

TEST(ConfigCheck, TheDefaultsAreSound) {
  EXPECT_THAT(findings_after([](RunConfig&) {}), IsEmpty());
}

TEST(ConfigCheck, ATildeStandsForNothing) {
  EXPECT_THAT(
      findings_after([](RunConfig& run) { run.output = "~/runs/one"; }),
      HasSubstr(
          "output: 'output' is ~/runs/one: only a shell knows what ~ stands for; write the whole path"));
  EXPECT_THAT(findings_after([](RunConfig& run) { run.data.eval = "~"; }), HasSubstr("'data.eval' is ~"));
  EXPECT_THAT(findings_after([](RunConfig& run) { run.output = "./~/runs/~one"; }), IsEmpty());
}

TEST(ConfigCheck, APathHasNoZeroByte) {
  EXPECT_THAT(findings_after([](RunConfig& run) { run.output = std::string("a\0b", 3); }),
              HasSubstr("'output' is a\\u0000b: a path has no zero byte"));
}

TEST(ConfigCheck, ADocumentMustFitTheBudget) {
  EXPECT_THAT(findings_after([](RunConfig& run) { run.train.context_tokens = run.data.max_length; }),
              IsEmpty());
  EXPECT_THAT(findings_after([](RunConfig& run) { run.train.context_tokens = 511; }),
              HasSubstr("train.context_tokens: 'train.context_tokens' is 511, but a conversation may have "
                        "'data.max_length', 512, and must fit"));
}

TEST(ConfigCheck, AnchorsOfADocumentMustFitTheBlocks) {
  EXPECT_THAT(findings_after([](RunConfig& run) { run.train.anchors_per_document = 256; }), IsEmpty());
  EXPECT_THAT(findings_after([](RunConfig& run) { run.train.anchors_per_document = 257; }),
              HasSubstr("'train.anchors_per_document' is 257, more than the 256 of 'train.blocks'"));
}

TEST(ConfigCheck, StepsAndEpochsExcludeEachOther) {
  EXPECT_THAT(
      findings_after([](RunConfig& run) { run.train.steps = 1, run.train.epochs = 1; }),
      HasSubstr("train.epochs: 'train.steps' and 'train.epochs' both say how long to train: keep one"));
}

// What is found in the drafter's rope scaling.
std::string scaling_findings(const RopeScalingConfig& scaling) {
  return findings_after([&](RunConfig& run) { run.drafter.rope.scaling = scaling; });
}

TEST(ConfigCheck, RopeScalingSaysWhatItNeeds) {
  EXPECT_THAT(scaling_findings({.type = RopeScaling::linear, .factor = 2}), IsEmpty());
  EXPECT_THAT(
      scaling_findings({.type = RopeScaling::yarn, .factor = 2, .original_max_position_embeddings = 4096}),
      IsEmpty());
  EXPECT_THAT(
      scaling_findings({.type = RopeScaling::linear}),
      HasSubstr("'drafter.rope.scaling.type' says a scaling that needs 'drafter.rope.scaling.factor'"));
  EXPECT_THAT(scaling_findings({.type = RopeScaling::yarn, .factor = 2}),
              HasSubstr("needs 'drafter.rope.scaling.original_max_position_embeddings'"));
}

TEST(ConfigCheck, RopeScalingSaysNothingWithoutMeaning) {
  EXPECT_THAT(scaling_findings({.factor = 2}),
              HasSubstr("drafter.rope.scaling.factor: 'drafter.rope.scaling.factor' has no meaning for this "
                        "'drafter.rope.scaling.type': set it to linear or yarn, or leave 'factor' out"));
  EXPECT_THAT(scaling_findings({.type = RopeScaling::linear, .factor = 2, .beta_slow = 2}),
              HasSubstr("'drafter.rope.scaling.beta_slow' has no meaning"));
  EXPECT_THAT(scaling_findings({.type = RopeScaling::yarn,
                                .factor = 2,
                                .original_max_position_embeddings = 4096,
                                .beta_slow = 32}),
              HasSubstr("'drafter.rope.scaling.beta_fast' is 32, which must be more than"));
}

TEST(ConfigCheck, ADraftersRopeIsNotScaledAsLlama3s) {
  EXPECT_THAT(scaling_findings({.type = RopeScaling::llama3, .factor = 8}),
              HasSubstr("drafter.rope.scaling.type: rope scaling llama3 cannot be served with a drafter: "
                        "loaders of the z-lab format"));
}

TEST(ConfigCheck, GammaBelongsToDflashAndAlphaToDpace) {
  EXPECT_THAT(findings_after([](RunConfig& run) { run.train.loss = {.type = LossKind::dpace, .gamma = 4}; }),
              HasSubstr("'train.loss.gamma' has no meaning for the dpace loss"));
  EXPECT_THAT(findings_after([](RunConfig& run) { run.train.loss.alpha = 0.5; }),
              HasSubstr("'train.loss.alpha' belongs to the dpace loss"));
  EXPECT_THAT(
      findings_after([](RunConfig& run) { run.train.loss = {.type = LossKind::dpace, .alpha = 0.5}; }),
      IsEmpty());
}

TEST(ConfigCheck, WithoutSmoothingDpaceTakesATrainedDrafter) {
  const auto unsmoothed = [](RunConfig& run) { run.train.loss = {.type = LossKind::dpace, .alpha = 0}; };
  EXPECT_THAT(findings_after(unsmoothed), HasSubstr("'train.loss.alpha' is 0, so that a slot weighs"));
  EXPECT_THAT(findings_after([&](RunConfig& run) { unsmoothed(run), run.drafter.init = "trained"; }),
              IsEmpty());
}

TEST(ConfigCheck, AnOptionWithoutEffectIsNotPassedOver) {
  EXPECT_THAT(findings_after([](RunConfig& run) { run.train.noise.scale = 0.3; }),
              HasSubstr("'train.noise.scale' is set, but 'train.noise.type' is none"));
  EXPECT_THAT(findings_after([](RunConfig& run) { run.train.noise.schedule = NoiseSchedule::linear; }),
              HasSubstr("'train.noise.schedule' is set, but 'train.noise.type' is none"));
  EXPECT_THAT(findings_after([](RunConfig& run) {
                run.train.noise = {
                    .type = NoiseKind::uniform, .scale = 0.3, .schedule = NoiseSchedule::linear};
              }),
              IsEmpty());
  EXPECT_THAT(findings_after([](RunConfig& run) { run.train.loss.distill.temperature = 2; }),
              HasSubstr("'train.loss.distill.temperature' is set, but 'train.loss.distill.weight' is 0"));
  EXPECT_THAT(
      findings_after([](RunConfig& run) { run.train.loss.distill = {.weight = 0.5, .temperature = 2}; }),
      IsEmpty());
  EXPECT_THAT(findings_after([](RunConfig& run) { run.drafter.is_causal = true; }),
              HasSubstr("'drafter.is_causal' is true, but no entry of 'drafter.layer_types' is sliding"));
  EXPECT_THAT(findings_after([](RunConfig& run) { run.drafter.is_causal = false; }), IsEmpty());
}

TEST(ConfigCheck, HeadsMustDivide) {
  EXPECT_THAT(findings_after([](RunConfig& run) { run.drafter.query_heads = 4, run.drafter.kv_heads = 3; }),
              HasSubstr("'drafter.kv_heads' is 3, which must divide 'drafter.query_heads', 4"));
  EXPECT_THAT(findings_after([](RunConfig& run) { run.drafter.head_dim = 63; }),
              HasSubstr("'drafter.head_dim' is 63, which must be even"));
}

TEST(ConfigCheck, TapsAscendWithoutRepeats) {
  EXPECT_THAT(findings_after([](RunConfig& run) {
                run.drafter.taps = {1, 3, 3};
              }),
              HasSubstr("'drafter.taps' must ascend without repeats, but 3 follows 3"));
}

TEST(ConfigCheck, LayerTypesCoverTheLayers) {
  EXPECT_THAT(findings_after([](RunConfig& run) { run.drafter.layer_types = {LayerKind::full}; }),
              HasSubstr("'drafter.layer_types' names 1 layers, but 'drafter.layers' is 3"));
}

TEST(ConfigCheck, ASlidingLayerAndItsWindowComeTogether) {
  const auto slide = [](RunConfig& run) {
    run.drafter.layers = 1;
    run.drafter.layer_types = {LayerKind::sliding};
  };
  EXPECT_THAT(findings_after(slide),
              HasSubstr("has a sliding_attention layer: set 'drafter.sliding_window' too"));
  EXPECT_THAT(findings_after([](RunConfig& run) { run.drafter.sliding_window = 64; }),
              HasSubstr("'drafter.sliding_window' is set, but no entry of 'drafter.layer_types'"));
  const auto windowed = [&](std::int64_t window) {
    return findings_after([&](RunConfig& run) { slide(run), run.drafter.sliding_window = window; });
  };
  EXPECT_THAT(windowed(8), IsEmpty());
  EXPECT_THAT(windowed(7),
              HasSubstr("'drafter.sliding_window' is 7, which must be at least 'drafter.block_size', 8"));
}

TEST(ConfigCheck, OnlyKindsOfDevicesThatThereAreAreNamed) {
  const auto targets = [](const std::vector<std::string>& names) {
    return findings_after([&](RunConfig& run) { run.devices.targets = names; });
  };
  EXPECT_THAT(targets({"cpu:0", "cpu:17", "cuda:99"}), IsEmpty()) << "on some machine";
  for (const char* name : {"cpu", "cpu:", "cpu:x", "cpu:-1", "cpu:00", "gpu:0", "cpu0"}) {
    EXPECT_THAT(targets({name}),
                HasSubstr(std::string("'devices.targets': device '") + name + "' is not known"));
  }
  EXPECT_THAT(targets({"cpu:0", "cpu:0"}), HasSubstr("'devices.targets' names cpu:0 twice"));
}

TEST(ConfigCheck, OneDeviceMayHaveBothRoles) {
  EXPECT_THAT(findings_after([](RunConfig& run) { run.devices.drafters = run.devices.targets; }), IsEmpty());
}

}  // namespace
}  // namespace draftsmith
