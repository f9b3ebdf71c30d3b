// eval and generate as a person runs them, with a drafter of random weights for the demo's target: nothing is
// accepted but by luck, and the output must be the target's own all the same.
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/command_line.h"
#include "app/commands.h"
#include "data/chat.h"
#include "data/file.h"
#include "data/hf_config.h"
#include "data/json.h"
#include "model/drafter_export.h"
#include "model/drafter_loader.h"
#include "support/temporary_folder.h"
#include "train/target_identity.h"

namespace draftsmith {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

namespace fs = std::filesystem;

const fs::path kDemo = fs::path(DRAFTSMITH_SOURCE_DIR) / "examples/demo";
const fs::path kSpecTiny = fs::path(DRAFTSMITH_SOURCE_DIR) / "tests/golden/spec_tiny";

struct Outcome {
  int code;
  std::string out, err;
};

Outcome type(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--threads", "1"});  // the tests of a suite share the cores
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = run_command_line(arguments);
  std::fflush(stdout);
  return {code, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

void write_random_drafter(const fs::path& folder) {
  DrafterConfigFile config{.decoder = read_target_config(kDemo / "target").decoder,
                           .num_target_layers = 6,
                           .block_size = 4,
                           .mask_token_id = 4095,
                           .target_layer_ids = {1, 3},
                           .layer_types = {DrafterLayerType::full_attention}};
  config.decoder.num_hidden_layers = 1;
  const DrafterShape shape = drafter_shape(config);
  const WeightTable table = drafter_weight_table(shape);
  std::vector<float> weights(static_cast<std::size_t>(table.size));
  initialise_weights(table, 1, {weights.data(), table.size});
  export_drafter(folder, {.shape = shape, .weights = {weights.data(), table.size}, .model_card = "random"});
}

// The first answer of the demo's evaluation conversations is the target's own greedy output.
constexpr const char* kQuestion = "Python loop that prints n from 0 to 6.";
constexpr const char* kAnswer = "for n in range(7):\n    print(n)\n";

class DecodingCommands : public testing::Test {
 protected:
  DecodingCommands() { write_random_drafter(drafter()); }
  fs::path drafter() const { return folder_.path() / "drafter"; }
  std::string target() const { return (kDemo / "target").string(); }

  TemporaryFolder folder_;
};

TEST_F(DecodingCommands, GenerateAnswersAsTheTargetDoes) {
  for (const char* compute : {"float32", "bf16"}) {
    const Outcome outcome =
        type({"generate", drafter(), "--target", target(), "--prompt", kQuestion, "--compute", compute});
    EXPECT_EQ(outcome.code, kExitDone) << outcome.err;
    EXPECT_EQ(outcome.out, kAnswer);
    EXPECT_THAT(outcome.err, ContainsRegex("[0-9]+ cycles, [0-9.]+ tokens a cycle"));
  }
}

TEST_F(DecodingCommands, GenerateContinuesRawTextUpToTheLimit) {
  const Outcome outcome =
      type({"generate", drafter(), "--target", target(), "--raw", "for n in", "--max-new-tokens", "5"});
  EXPECT_EQ(outcome.code, kExitDone) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("5 tokens after a prompt of"));
}

TEST_F(DecodingCommands, GenerateClaimsNoRateOfItsFirstTokenAlone) {
  std::vector<std::string> command{"generate", drafter(), "--target", target(), "--prompt", kQuestion};
  command.insert(command.end(), {"--max-new-tokens", "1"});
  EXPECT_THAT(type(command).err, testing::EndsWith("; 0 cycles\n"));
  command.push_back("--plain");
  EXPECT_THAT(type(command).err, testing::EndsWith("; decoded plainly\n"));
}

TEST_F(DecodingCommands, GenerateWithTheTargetAloneGivesTheSameText) {
  const Outcome outcome =
      type({"generate", drafter(), "--target", target(), "--prompt", kQuestion, "--plain"});
  EXPECT_EQ(outcome.code, kExitDone) << outcome.err;
  EXPECT_EQ(outcome.out, kAnswer);
  EXPECT_THAT(outcome.err, HasSubstr("plainly"));
}

TEST_F(DecodingCommands, GeneratePrintsTheIdsOfPromptAndOutput) {
  const Tokenizer tokenizer = Tokenizer::load(target());
  const auto line = [](const std::vector<std::int32_t>& ids) {
    std::string text;
    for (const std::int32_t id : ids) text += (text.empty() ? "" : " ") + std::to_string(id);
    return text + "\n";
  };
  const std::string_view printed = kAnswer;
  const std::string_view text = printed.substr(0, printed.size() - 1);  // generate ends the line
  std::vector<std::int32_t> answer = tokenizer.encode(text);
  answer.push_back(*tokenizer.eos_token());
  std::vector<std::string> command{"generate", drafter(), "--target", target(),
                                   "--prompt", kQuestion, "--ids"};
  const Outcome outcome = type(command);
  EXPECT_EQ(outcome.code, kExitDone) << outcome.err;
  const Message message{.role = "user", .content = kQuestion};
  const auto prompt = ChatTemplate::load(target()).encode_prompt(tokenizer, {&message, 1});
  EXPECT_EQ(outcome.out, line(prompt) + line(answer));
  command.push_back("--plain");
  EXPECT_EQ(type(command).out, outcome.out);
}

TEST_F(DecodingCommands, EvalPrintsATableAndWritesTheFile) {
  const fs::path output = folder_.path() / "eval.json";
  const Outcome outcome = type({"eval", drafter(), "--target", target(), "--data", kDemo / "eval.jsonl",
                                "--conversations", "3", "--max-new-tokens", "40", "--output", output});
  EXPECT_EQ(outcome.code, kExitDone) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(ContainsRegex("code +[0-9]+ +[0-9]+ +[0-9.]+\n"), ContainsRegex("all +3 "),
                                 HasSubstr("accepted by offset"),
                                 HasSubstr("output equal to plain greedy decoding: 3 of 3")));
  const JsonValue json = parse_json(read_text_file(output), "eval.json");
  for (const char* key : {"pooled", "domains", "by_offset", "greedy_equal", "conversations", "seconds"}) {
    EXPECT_NE(find_member(*json.get<JsonObject>(), key), nullptr) << key;
  }
}

TEST_F(DecodingCommands, GenerateDrawsTheSameTextForTheSameSeed) {
  const auto draw = [&](std::vector<std::string> more) {
    std::vector<std::string> command{"generate", drafter(),          "--target", target(), "--raw",
                                     "for",      "--max-new-tokens", "12",       "--ids"};
    command.insert(command.end(), more.begin(), more.end());
    const Outcome outcome = type(command);
    EXPECT_EQ(outcome.code, kExitDone) << outcome.err;
    return outcome.out;
  };
  const std::string greedy = draw({});
  const std::string drawn = draw({"--temperature", "3", "--seed", "4"});
  EXPECT_NE(drawn, greedy);
  EXPECT_EQ(draw({"--temperature", "3", "--seed", "4"}), drawn);
  EXPECT_NE(draw({"--temperature", "3", "--seed", "5"}), drawn);
  for (const char* more : {"--greedy-drafts", "--plain"}) {  // a nucleus of one token leaves no choice
    EXPECT_EQ(draw({"--temperature", "3", "--top-p", "1e-9", more}), greedy);
  }
}

TEST_F(DecodingCommands, EvalOfDrawnTokensClaimsNoEquality) {
  const fs::path output = folder_.path() / "eval.json";
  const Outcome outcome =
      type({"eval", drafter(), "--target", target(), "--data", kDemo / "eval.jsonl", "--conversations", "2",
            "--max-new-tokens", "8", "--output", output, "--temperature", "1.5", "--top-p", "0.9"});
  EXPECT_EQ(outcome.code, kExitDone) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("sampled at temperature 1.5, top-p 0.9, drawn drafts"),
                                 testing::Not(HasSubstr("output equal to plain"))));
  const JsonValue json = parse_json(read_text_file(output), "eval.json");
  const JsonObject& members = *json.get<JsonObject>();
  EXPECT_NE(find_member(members, "greedy_equal")->get<JsonNull>(), nullptr);
  EXPECT_EQ(*find_member(members, "temperature")->get<double>(), 1.5);
  EXPECT_EQ(*find_member(members, "top_p")->get<double>(), 0.9);
}

TEST_F(DecodingCommands, ARunGivesItsExportTargetAndData) {
  const fs::path run = folder_.path() / "run";
  folder_.write("run/config.yaml", "target: " + target() + "\ndata: {train: t.jsonl, eval: " +
                                       (kDemo / "eval.jsonl").string() + "}\noutput: " + run.string() + "\n");
  EXPECT_THAT(type({"eval", run}).err, HasSubstr("draftsmith export " + run.string()));
  write_random_drafter(run / "export");
  const Outcome outcome = type({"eval", run, "--conversations", "1", "--max-new-tokens", "8"});
  EXPECT_EQ(outcome.code, kExitDone) << outcome.err;
  EXPECT_TRUE(fs::exists(run / "eval.json"));
}

TEST_F(DecodingCommands, ARunThatIsUsedElsewhereSaysWhoseItsPathsAreAndHowToGiveOthers) {
  const fs::path run = folder_.path() / "run";
  folder_.write("run/config.yaml",
                "target: gone/target\ndata: {train: t.jsonl, eval: gone.jsonl}\noutput: run\n");
  write_random_drafter(run / "export");
  EXPECT_THAT(type({"generate", run, "--prompt", "x"}).err,
              AllOf(HasSubstr("gone/target: expected the folder of a target"),
                    HasSubstr("the path is that in " + (run / "config.yaml").string()),
                    HasSubstr("give another path with --target FOLDER")));
  EXPECT_THAT(type({"eval", run, "--target", target()}).err,
              AllOf(HasSubstr("gone.jsonl: "), HasSubstr((run / "config.yaml").string()),
                    HasSubstr("give another path with --data FILE.jsonl")));
}

TEST_F(DecodingCommands, ARunWhoseConfigurationIsDamagedNamesItsExportInstead) {
  const fs::path run = folder_.path() / "run";
  folder_.write("run/config.yaml", "target: [\n");
  write_random_drafter(run / "export");
  EXPECT_THAT(type({"generate", run, "--target", target(), "--prompt", "x"}).err,
              AllOf(HasSubstr("this is not YAML"),
                    HasSubstr("name " + (run / "export").string() + " in place of the run")));
}

TEST_F(DecodingCommands, AnotherTargetThanTheDraftersIsWarnedOf) {
  TargetIdentity trained = identify_target(target(), 2);
  const auto error_when_trained_on = [&](const TargetIdentity& identity) {
    folder_.write(
        "drafter/origin.json",
        write_json({JsonObject{{"step", {1}}, {"target", identity_json(identity)}}}, JsonLayout::compact));
    const Outcome outcome =
        type({"generate", drafter(), "--target", target(), "--prompt", kQuestion, "--max-new-tokens", "2"});
    EXPECT_EQ(outcome.code, kExitDone) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(error_when_trained_on(trained), testing::Not(HasSubstr("warning")));
  ++trained.checksum;
  EXPECT_THAT(error_when_trained_on(trained),
              HasSubstr("this drafter was trained on another target than " + target()));
}

TEST_F(DecodingCommands, APromptThatIsNoUtf8IsRefusedByItsOwnOffset) {
  for (const char* option : {"--prompt", "--raw"}) {
    EXPECT_THAT(type({"generate", drafter(), "--target", target(), option, "a\xff"}).err,
                HasSubstr(std::string(option) + " is not UTF-8: its byte at offset 1 starts no character"));
  }
}

TEST_F(DecodingCommands, WhatDoesNotFitIsRefused) {
  const auto expect_error = [](const std::vector<std::string>& arguments, const std::string& message) {
    const Outcome outcome = type(arguments);
    EXPECT_EQ(outcome.code, kExitError);
    EXPECT_THAT(outcome.err, HasSubstr(message));
  };
  const std::string tiny = kSpecTiny / "drafter";
  expect_error({"generate", tiny, "--prompt", "x"}, "--target FOLDER");
  expect_error({"generate", "no/drafter", "--prompt", "x"},
               "no/drafter: expected the folder of a run or a drafter");
  expect_error({"generate", drafter(), "--target", "no/target", "--prompt", "x"},
               "no/target: expected the folder of a target");
  expect_error({"generate", tiny, "--target", target(), "--prompt", "x"},
               "hidden_size is 64, the target's is 256");
  expect_error({"generate", drafter(), "--target", target()}, "--prompt TEXT or --raw TEXT");
  expect_error({"eval", drafter(), "--target", target()}, "--data FILE.jsonl");
  expect_error({"eval", drafter(), "--target", target(), "--temperature=-1"},
               "temperature is -1; expected a number of 0 (greedy) or more");
  expect_error({"generate", drafter(), "--target", target(), "--prompt", "x", "--top-p", "0"},
               "top-p is 0; expected a number above 0 and up to 1");
  expect_error({"generate", drafter(), "--target", target(), "--prompt", "x", "--max-new-tokens", "4000"},
               "max_position_embeddings");
  expect_error({"generate", drafter(), "--target", target(), "--prompt", "x", "--device", "cuda:0"},
               "cuda:0");
}

TEST_F(DecodingCommands, EvalRefusesAnOutputThatCannotBeWrittenBeforeItDecodes) {
  const std::string nowhere = folder_.path() / "missing" / "eval.json";
  for (const auto& [output, expected] :
       {std::pair<std::string, std::string>{folder_.path(),
                                            "expected the name of a file to write, found a folder"},
        {nowhere, "cannot create: No such file or directory"}}) {
    const Outcome outcome = type({"eval", drafter(), "--target", target(), "--data", kDemo / "eval.jsonl",
                                  "--conversations", "1", "--output", output});
    EXPECT_EQ(outcome.code, kExitError);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr(output), HasSubstr(expected)));
    EXPECT_THAT(outcome.out, testing::IsEmpty());
  }
}

TEST_F(DecodingCommands, EvalReplacesNoFileButAnEmptyOneOrAnEarlierResult) {
  const std::string data = folder_.write("data.jsonl", read_text_file(kDemo / "eval.jsonl"));
  const auto eval = [&](const std::string& output) {
    return type({"eval", drafter(), "--target", target(), "--data", data, "--conversations", "1",
                 "--max-new-tokens", "2", "--output", output});
  };
  for (const std::string& path :
       {data, std::string(folder_.write("config.yaml", "steps: 1\n")),
        std::string(folder_.write("log.json", R"({"pooled": 1, "domains": {}})"))}) {
    const std::string before = read_text_file(path);
    const Outcome outcome = eval(path);
    EXPECT_EQ(outcome.code, kExitError);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr(path + ": expected a new file"), HasSubstr("another path")));
    EXPECT_THAT(outcome.out, testing::IsEmpty()) << "before it decodes";
    EXPECT_TRUE(read_text_file(path) == before);
  }
  const std::string output = folder_.write("eval.json", "");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(eval(output).code, kExitDone);
  EXPECT_EQ(eval("/dev/null").code, kExitDone);
}

}  // namespace
}  // namespace draftsmith
