#include "app/config.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/options.h"
#include "base/error.h"
#include "support/expect_error.h"

namespace draftsmith {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StrEq;

const std::string kShortest = "target: folder\ndata: {train: train.jsonl}\noutput: runs/one\n";

RunConfig parse(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse_config({.name = "run.yaml", .text = text, .overrides = overrides});
}

// The message with which the configuration is refused.
std::string refusal(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    parse(text, overrides);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

// For one line after the required ones: line 4.
std::string refusal_of_line(const std::string& line) { return refusal(kShortest + line + "\n"); }

TEST(Config, ReadsTheExampleOfEveryCommonKey) {
  const RunConfig config = parse(R"(
target: examples/demo/target
drafter: {layers: 2, block_size: 16, taps: [1, 4], head_dim: 64, mask_token_id: 77,
          rope: {theta: 1e6, scaling: {type: yarn, factor: 4, original_max_position_embeddings: 4096}}}
data: {train: a.jsonl, eval: b.jsonl, max_length: 256}
train:
  epochs: 3
  context_tokens: 2048
  blocks: 128
  anchors_per_document: 8
  accumulate: 2
  compute: bf16
  loss: {type: dpace, alpha: 0.4}
  optimizer: {lr: 6e-4, betas: [0.8, 0.95], eps: 1e-6, weight_decay: 0.01, warmup_ratio: 0.1, schedule: linear,
              min_lr_ratio: 0.1, clip: 0}
  seed: 9223372036854775807
  checkpoint: {every: 50, keep: 2}
  eval: {every: 25, conversations: 10}
devices: {targets: ["cpu:0"], drafters: [cpu:0, cpu:1], queue: {slots: 2}, threads: 1}
output: runs/x
)");
  EXPECT_EQ(config.target, "examples/demo/target");
  EXPECT_EQ(config.drafter.layers, 2);
  EXPECT_THAT(config.drafter.taps, ElementsAre(1, 4));
  EXPECT_EQ(config.drafter.rope.theta, 1e6);
  EXPECT_EQ(config.drafter.rope.scaling.type, RopeScaling::yarn);
  EXPECT_EQ(config.drafter.rope.scaling.factor, 4);
  EXPECT_EQ(config.drafter.rope.scaling.original_max_position_embeddings, 4096);
  EXPECT_EQ(config.drafter.mask_token_id, 77);
  EXPECT_FALSE(config.drafter.query_heads);
  EXPECT_EQ(config.data.eval, "b.jsonl");
  EXPECT_EQ(config.train.epochs, 3);
  EXPECT_FALSE(config.train.steps);
  EXPECT_EQ(config.train.compute, DType::bf16);
  EXPECT_EQ(config.train.loss.type, LossKind::dpace);
  EXPECT_EQ(config.train.loss.alpha, 0.4);
  EXPECT_FALSE(config.train.loss.gamma);
  EXPECT_THAT(config.train.optimizer.betas, ElementsAre(0.8, 0.95));
  EXPECT_EQ(config.train.optimizer.schedule, ScheduleType::linear);
  EXPECT_EQ(config.train.seed, 9223372036854775807);
  EXPECT_THAT(config.devices.drafters, ElementsAre("cpu:0", "cpu:1"));
  EXPECT_EQ(config.devices.threads, 1);
}

TEST(Config, TheShortestFileTakesTheDefaultsOfTheStruct) {
  const RunConfig config = parse(kShortest);
  RunConfig expected;
  expected.target = "folder";
  expected.data.train = "train.jsonl";
  expected.output = "runs/one";
  fill_derived_defaults(expected);
  EXPECT_EQ(save_resolved(config), save_resolved(expected));
  EXPECT_EQ(config.train.steps, 400);
  EXPECT_EQ(config.train.loss.gamma, 4.0);
}

TEST(Config, TheDemoSaysTheDefaults) {
  const RunConfig config = load_config(
      {.path = DRAFTSMITH_SOURCE_DIR "/examples/demo/run.yaml", .existence = Existence::unchecked});
  RunConfig expected;
  expected.target = "examples/demo/target";
  expected.data.train = "examples/demo/train.jsonl";
  expected.data.eval = "examples/demo/eval.jsonl";
  expected.output = "runs/demo";
  fill_derived_defaults(expected);
  EXPECT_EQ(save_resolved(config), save_resolved(expected));
}

TEST(Config, OverridesWinOverTheFile) {
  const RunConfig config = parse(
      kShortest + "train: {steps: 5, optimizer: {lr: 1}}\n",
      {"train.steps=800", "devices.targets=[cpu:3]", "train.optimizer={lr: 0.5, clip: 2}", "output=a=b"});
  EXPECT_EQ(config.train.steps, 800);
  EXPECT_THAT(config.devices.targets, ElementsAre("cpu:3"));
  EXPECT_EQ(config.train.optimizer.lr, 0.5);
  EXPECT_EQ(config.train.optimizer.clip, 2.0);
  EXPECT_EQ(config.output, "a=b");
}

TEST(Config, AutoLeavesAnOptionToItsRule) {
  const RunConfig config =
      parse(kShortest + "train: {steps: 5, loss: {gamma: 1}}\ndrafter: {taps: [1]}\n",
            {"train.steps=auto", "train.epochs=2", "train.loss.gamma=auto", "drafter.taps=auto"});
  EXPECT_FALSE(config.train.steps);
  EXPECT_EQ(config.train.epochs, 2);
  EXPECT_EQ(config.train.loss.gamma, 4.0);
  EXPECT_TRUE(config.drafter.taps.empty());
}

TEST(Config, TheSavedFormReadsBackToTheSameConfiguration) {
  RunConfig config = parse(kShortest);
  config.target = "with \"quotes\", # and: a\nline";
  config.output = "2024";
  config.drafter.taps = {1, 2, 5};
  config.drafter.layer_types = {LayerKind::sliding, LayerKind::full, LayerKind::sliding};
  config.drafter.sliding_window = 64;
  config.drafter.is_causal = false;
  config.drafter.rms_norm_eps = 1.0 / 3.0;
  config.train.optimizer.lr = 0.1 + 0.2;
  config.train.optimizer.betas = {0.1, 0.7};
  config.train.compute = DType::float32;
  config.devices.targets = {"cpu:0", "cpu:1"};
  const RunConfig again = parse(save_resolved(config));
  for (const Option& option : all_options()) EXPECT_EQ(option.get(again), option.get(config)) << option.name;
  EXPECT_EQ(save_resolved(again), save_resolved(config));
}

// What config.yaml says is what the export says.
TEST(Config, CausalityIsResolvedByTheKindsOfLayers) {
  EXPECT_EQ(parse(kShortest).drafter.is_causal, false);
  EXPECT_EQ(parse(save_resolved(parse(kShortest))).drafter.is_causal, false);
  const std::string sliding =
      kShortest + "drafter: {layers: 1, layer_types: [sliding_attention], sliding_window: 64}\n";
  EXPECT_EQ(parse(sliding).drafter.is_causal, true);
}

TEST(Config, ASavedDpaceConfigurationIsNotRefusedForItsGamma) {
  const RunConfig config = parse(kShortest + "train: {loss: {type: dpace}}\n");
  EXPECT_EQ(save_resolved(parse(save_resolved(config))), save_resolved(config));
}

TEST(Config, AnUnknownKeyNamesItsPlaceAndTheNearestKeyWithItsRange) {
  EXPECT_THAT(
      refusal(kShortest + "train:\n  stepz: 800\n"),
      StrEq(
          "run.yaml:5:3: unknown key 'train.stepz'; the nearest known key is 'train.steps' (an integer from "
          "1 to 1000000000, or auto)"));
  EXPECT_THAT(refusal_of_line("train: {banana: 1}"),
              HasSubstr("unknown key 'train.banana'; known in 'train' are steps, epochs, context_tokens"));
  EXPECT_THAT(refusal_of_line("banana: 1"),
              HasSubstr("unknown key 'banana'; known keys are target, drafter"));
  EXPECT_THAT(refusal_of_line("ouptut: x"),
              HasSubstr("run.yaml:4:1: unknown key 'ouptut'; the nearest known key is "
                        "'output' (text)"));
}

TEST(Config, AKeyBelowAnOptionIsOneOfTheSectionAboveIt) {
  EXPECT_THAT(refusal(kShortest, {"train.steps.x=3"}),
              HasSubstr("unknown key 'train.steps.x'; known in 'train' are steps, epochs, context_tokens"));
}

TEST(Config, AKeyInCapitalsIsFoundInSmallLetters) {
  EXPECT_THAT(refusal(kShortest, {"TRAIN.STEPS=3"}), HasSubstr("the nearest known key is 'train.steps'"));
}

TEST(Config, AKeyInTheWrongSectionIsFoundWhereItBelongs) {
  EXPECT_THAT(refusal_of_line("train: {lr: 1}"), HasSubstr("the nearest known key is 'train.optimizer.lr'"));
  EXPECT_THAT(refusal_of_line("train.steps: 3"),
              StrEq("run.yaml:4:1: the key 'train.steps' has a dot: in YAML, sections are nested mappings"));
  EXPECT_THAT(
      refusal_of_line("drafters: {layers: 1}"),
      HasSubstr("the nearest known key is 'drafter' (a mapping with the keys layers, block_size, taps"));
}

TEST(Config, AWrongTypeNamesWhatWasExpectedAndFound) {
  EXPECT_THAT(refusal_of_line("drafter: {layers: 4x}"),
              StrEq("run.yaml:4:19: 'drafter.layers' must be an integer from 1 to 128; found the text '4x'"));
  EXPECT_THAT(refusal_of_line("drafter: {layers: \"4\"}"), HasSubstr("found the text '4'"));
  EXPECT_THAT(refusal_of_line("drafter: {layers: !!str 4}"), HasSubstr("found the text '4'"));
  EXPECT_THAT(refusal_of_line("drafter: {layers: 3.0}"), HasSubstr("an integer from 1 to 128; found 3.0"));
  EXPECT_THAT(refusal_of_line("drafter: {layers: [3]}"), HasSubstr("found a list of 1"));
  EXPECT_THAT(refusal_of_line("drafter: {layers: {a: 3}}"), HasSubstr("found a mapping"));
  EXPECT_THAT(refusal_of_line("drafter: {taps: 3}"),
              HasSubstr("must be a list of integers from 0 to 4096, or auto; "
                        "found 3"));
  EXPECT_THAT(refusal_of_line("drafter: {taps: [1, two]}"), HasSubstr("found the entry the text 'two'"));
  EXPECT_THAT(refusal_of_line("drafter: {taps: [1, [2]]}"), HasSubstr("found an entry that is a list of 1"));
  EXPECT_THAT(refusal_of_line("drafter: {attention_bias: yes}"),
              HasSubstr("must be true or false; found the text 'yes'"));
  EXPECT_THAT(refusal_of_line("train: {optimizer: {lr: fast}}"),
              HasSubstr("must be a number above 0 to 1000000000000; found the text 'fast'"));
  EXPECT_THAT(refusal_of_line("train: {compute: fp8}"),
              HasSubstr("must be one of float32, bf16, or auto; found the text 'fp8'"));
  EXPECT_THAT(
      refusal_of_line("drafter: {layer_types: [full]}"),
      HasSubstr("must be a list of entries out of full_attention, sliding_attention, or auto; found"));
  EXPECT_THAT(refusal_of_line("devices: {targets: [1]}"),
              HasSubstr("must be a list of texts; found the entry 1"));
}

TEST(Config, ATextThatLooksLikeANumberMustBeQuoted) {
  EXPECT_THAT(
      refusal("target: 7\ndata: {train: t}\noutput: o\n"),
      HasSubstr("'target' must be text; found 7; as text it stands in quotes, \"7\", on a command line "
                "target='\"7\"'"));
  EXPECT_EQ(parse(kShortest, {"target=\"7\""}).target, "7");
  EXPECT_THAT(refusal(kShortest, {"output=1e5"}), HasSubstr("in quotes, \"1e5\", on"));
  EXPECT_THAT(refusal(kShortest, {"devices.targets=[true]"}), HasSubstr("devices.targets='[\"true\"]'"));
  EXPECT_EQ(parse("target: \"7\"\ndata: {train: t}\noutput: o\n").target, "7");
}

TEST(Config, NothingAsAValueIsRefused) {
  EXPECT_THAT(refusal_of_line("drafter: {layers: }"), HasSubstr("'drafter.layers' must be an integer"));
  EXPECT_THAT(refusal(kShortest + "train:\n  blocks:\n  seed: 3\n"),
              HasSubstr("run.yaml:5:3: 'train.blocks' must be"));
  EXPECT_THAT(refusal_of_line("drafter: 3"),
              HasSubstr("run.yaml:4:10: 'drafter' must be a mapping with the keys"));
  EXPECT_THAT(refusal_of_line("drafter: {layers: ~}"), HasSubstr("found nothing"));
  EXPECT_THAT(refusal_of_line("devices: {targets: null}"), HasSubstr("found nothing"));
  EXPECT_THAT(refusal(kShortest, {"target=null"}), HasSubstr("'target' must be text; found nothing"));
  EXPECT_THAT(refusal("target: \"\"\ndata: {train: t}\noutput: o\n"),
              HasSubstr("'target' must be text; found an empty text"));
  EXPECT_THAT(refusal_of_line("train:"),
              HasSubstr("run.yaml:4:1: 'train' must be a mapping with the keys steps, epochs, "));
  EXPECT_THAT(refusal(kShortest, {"train.steps="}),
              HasSubstr("train.steps=: nothing follows the =; an override is"));
  EXPECT_THAT(refusal(kShortest, {"data.eval="}), HasSubstr("train.steps=800; data.eval=null leaves it out"));
  EXPECT_THAT(refusal(kShortest, {"train.seed="}), Not(HasSubstr("null")));  // which it may not be
}

// Nor what YAML takes for a comment or a mark of its own.
TEST(Config, AnOverrideOfNothingThatYamlReadsIsRefused) {
  for (const char* typed : {"#x", "%x", "---", "...", " # x"}) {
    EXPECT_THAT(refusal(kShortest, {std::string("drafter.init=") + typed}),
                HasSubstr("as text it stands in quotes, drafter.init='\""))
        << typed;
  }
  EXPECT_EQ(parse(kShortest, {"drafter.init=\"#x\""}).drafter.init, "#x");
}

TEST(Config, NullUnsetsWhatNeedNotBeSaid) {
  const std::string file =
      "target: folder\ndata: {train: t, eval: e}\noutput: o\ndrafter: {init: i, layers: 1, taps: [1]}\n"
      "train: {steps: 5}\n";
  const RunConfig config =
      parse(file, {"data.eval=null", "drafter.init=~", "drafter.taps=null", "train={steps: }"});
  EXPECT_EQ(config.data.eval, "");
  EXPECT_EQ(config.drafter.init, "");
  EXPECT_TRUE(config.drafter.taps.empty());
  EXPECT_EQ(config.train.steps, 400);
  EXPECT_EQ(parse("target: folder\ndata:\n  train: t\n  eval:\noutput: o\n").data.eval, "");
}

// 1e-300 as a float is 0, which turns clipping and the decay off.
TEST(Config, ANumberThatFloat32TakesForZeroIsRefused) {
  for (const char* option :
       {"train.loss.gamma", "train.optimizer.clip", "train.optimizer.lr", "train.optimizer.eps"}) {
    EXPECT_THAT(
        refusal(kShortest, {std::string(option) + "=1e-300"}),
        HasSubstr(
            "found 1e-300, which is nearer to 0 than float32 keeps a number: its smallest is 1.1754944e-38"));
    EXPECT_EQ(refusal(kShortest, {std::string(option) + "=1.2e-38"}), "accepted");
  }
  EXPECT_THAT(refusal(kShortest, {"train.optimizer.betas=[1e-300, 0.9]"}),
              HasSubstr("found the entry 1e-300, which"));
  EXPECT_EQ(refusal(kShortest, {"train.loss.gamma=0", "train.optimizer.clip=0"}), "accepted");
}

TEST(Config, ATemperatureLeavesLogitsWithinFloat32) {
  const std::string section = "train.loss.distill={weight: 1, temperature: ";
  EXPECT_THAT(refusal(kShortest, {section + "1e-30}"}),
              HasSubstr("must be a number from 0.001 to 1000; found 1e-30"));
  EXPECT_EQ(refusal(kShortest, {section + "0.001}"}), "accepted");
}

TEST(Config, ValuesOutsideTheirRangeAreRefused) {
  EXPECT_THAT(refusal_of_line("drafter: {block_size: 33}"), HasSubstr("an integer from 2 to 32; found 33"));
  EXPECT_THAT(refusal_of_line("train: {blocks: 0}"), HasSubstr("an integer from 1 to 1048576; found 0"));
  EXPECT_THAT(refusal_of_line("train: {anchors_per_document: 0}"), HasSubstr("found 0"));
  EXPECT_THAT(refusal_of_line("train: {seed: -1}"),
              HasSubstr("an integer of 0 or more, below 2^63; found -1"));
  EXPECT_THAT(refusal_of_line("train: {steps: 99999999999999999999}"),
              HasSubstr("found 99999999999999999999"));
  EXPECT_THAT(refusal_of_line("train: {optimizer: {betas: [0.9, 1]}}"),
              HasSubstr("a list of 2 numbers from 0 to below 1; found the entry 1"));
  EXPECT_THAT(refusal_of_line("train: {optimizer: {betas: [0.9]}}"), HasSubstr("found a list of 1"));
  EXPECT_THAT(refusal_of_line("train: {optimizer: {warmup_ratio: 1.5}}"),
              HasSubstr("from 0 to 1; found 1.5"));
  EXPECT_THAT(refusal_of_line("train: {optimizer: {lr: 0}}"), HasSubstr("found 0"));
  EXPECT_THAT(refusal_of_line("train: {optimizer: {lr: .inf}}"), HasSubstr("found the text '.inf'"));
  EXPECT_THAT(refusal_of_line("train: {optimizer: {lr: nan}}"), HasSubstr("found the text 'nan'"));
  EXPECT_THAT(refusal_of_line("devices: {queue: {slots: 0}}"),
              HasSubstr("an integer from 1 to 4096; found 0"));
  EXPECT_THAT(refusal_of_line("devices: {drafters: []}"), HasSubstr("a list of texts; found an empty list"));
}

TEST(Config, DuplicatesAreRefused) {
  EXPECT_THAT(refusal(kShortest + "output: again\n"),
              StrEq("run.yaml:4:1: 'output' is given twice: keep one"));
  EXPECT_THAT(refusal_of_line("train: {steps: 1, steps: 2}"),
              HasSubstr("run.yaml:4:19: 'train.steps' is given twice"));
  EXPECT_THAT(refusal(kShortest, {"train.steps=1", "train.steps=2"}),
              StrEq("train.steps=2: 'train.steps' is given twice: keep one"));
  EXPECT_THAT(refusal(kShortest, {"train.steps=1", "train={steps: 2}"}),
              StrEq("train={steps: 2}: 'train.steps' is given twice: keep one"));
}

TEST(Config, MalformedOverridesAreRefused) {
  EXPECT_THAT(refusal(kShortest, {"train.steps"}),
              StrEq("train.steps: an override is name=value, as in train.steps=800"));
  EXPECT_THAT(refusal(kShortest, {"=3"}), HasSubstr("an override is name=value"));
  EXPECT_THAT(refusal(kShortest, {"train.step=1"}),
              HasSubstr("train.step=1: unknown key 'train.step'; the nearest "
                        "known key is 'train.steps'"));
  EXPECT_THAT(refusal(kShortest, {"drafter.taps=[1"}), HasSubstr("drafter.taps=[1: the value is not YAML"));
}

TEST(Config, WhatIsNotYamlNamesItsPlace) {
  EXPECT_THAT(refusal("target: [\n"), HasSubstr("run.yaml:2:1: this is not YAML: "));
  EXPECT_THAT(refusal("a: 1\n---\nb: 2\n"),
              StrEq("run.yaml:2:1: expected one YAML document, found another one here"));
  EXPECT_THAT(refusal("- a\n"),
              HasSubstr("run.yaml:1:1: the configuration must be a mapping with the keys target, drafter, "
                        "data, train, devices, output; found a list of 1"));
  EXPECT_THAT(refusal(kShortest + "[a]: 3\n"), HasSubstr("a key is a word; found a list of 1"));
}

// A stray comma was read as documents without end, until the memory was used up.
TEST(Config, AStrayCommaIsNotReadForEver) {
  EXPECT_THAT(refusal(","), HasSubstr("run.yaml:1:1: expected one YAML document"));
  EXPECT_THAT(refusal(kShortest + ","), HasSubstr("this is not YAML"));
  EXPECT_THAT(refusal("{target: t},"), HasSubstr("run.yaml:1:12: expected one YAML document"));
}

TEST(Config, AllProblemsAreReportedAtOnce) {
  EXPECT_THAT(refusal("target: folder\nfoo: 1\noutput: 3\n"),
              AllOf(HasSubstr("the configuration has 2 problems\n  run.yaml:2:1: unknown key 'foo'"),
                    HasSubstr("\n  run.yaml:3:9: 'output' must be text; found 3")));
  EXPECT_THAT(refusal(""),
              AllOf(HasSubstr("3 problems"), HasSubstr("run.yaml: 'target' is missing: Hugging Face folder"),
                    HasSubstr("'data.train' is missing"), HasSubstr("'output' is missing")));
}

TEST(Config, AFindingPointsAtWhatSetTheOption) {
  EXPECT_THAT(refusal_of_line("train: {context_tokens: 500}"),
              HasSubstr("run.yaml:4:25: 'train.context_tokens' is 500"));
  EXPECT_THAT(refusal(kShortest, {"train.context_tokens=500"}),
              HasSubstr("train.context_tokens=500: 'train.context"));
  EXPECT_THAT(refusal_of_line("data: {max_length: 5000}"), HasSubstr("'data' is given twice"));
}

TEST(Config, AMissingFileSaysWhereRelativePathsStart) {
  try {
    load_config({.path = "no/such.yaml"});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("no/such.yaml: cannot open this configuration: No such file or directory"),
                      HasSubstr("relative paths start in " + std::filesystem::current_path().string())));
  }
}

TEST(Config, AFolderIsNoConfigurationButARunsFolderHoldsOne) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / "draftsmith_config_test_folder";
  const std::filesystem::path inside = folder / "config.yaml";
  std::filesystem::create_directory(folder);
  std::filesystem::remove(inside);
  const auto load = [&] { load_config({.path = folder}); };
  expect_error(load, {folder.string(), "expected a configuration's file, found a folder"});
  std::ofstream(inside) << kShortest;
  expect_error(load, {"found a folder; did you mean " + inside.string() + "?"});
}

TEST(Config, LoadingRefusesInputsThatAreNotThere) {
  const auto path = std::filesystem::temp_directory_path() / "draftsmith_config_test.yaml";
  std::ofstream(path) << "target: no/folder\ndata: {train: no.jsonl, eval: none.jsonl}\noutput: o\n";
  try {
    load_config({.path = path});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr(":1:9: 'target' names no/folder, which is no folder"),
                                    HasSubstr(":2:15: 'data.train' names no.jsonl, which is no file"),
                                    HasSubstr("'data.eval' names none.jsonl")));
  }
  EXPECT_EQ(load_config({.path = path, .existence = Existence::unchecked}).target, "no/folder");
  std::ofstream(path) << "target: " DRAFTSMITH_SOURCE_DIR "/docs\ndata: {train: no.jsonl}\noutput: o\n";
  expect_error(
      [&] { load_config({.path = path}); },
      {":1:9: 'target' names ", "/docs, which has no config.json; expected the folder of a Hugging Face"});
  std::filesystem::remove(path);
}

// A run's own configuration may come from another machine: with more cards, say.
TEST(Config, LoadingRefusesDevicesThatAreNotThere) {
  const auto path = std::filesystem::temp_directory_path() / "draftsmith_config_devices_test.yaml";
  std::ofstream(path) << kShortest << "devices: {targets: [\"cuda:99\"]}\n";  // no machine has that many
  try {
    load_config({.path = path});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(":4:20: 'devices.targets': device cuda:99 cannot be used: "));
  }
  EXPECT_THAT(load_config({.path = path, .existence = Existence::unchecked}).devices.targets,
              ElementsAre("cuda:99"));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace draftsmith
