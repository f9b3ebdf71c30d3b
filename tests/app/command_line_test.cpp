#include "app/command_line.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/commands.h"
#include "app/scene.h"

namespace draftsmith {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(CommandLine, HelpNamesTheCommandsAndTheExitCodes) {
  const Outcome outcome = type({"--help"});
  EXPECT_EQ(outcome.code, kExitDone);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("trains DFlash drafters"), HasSubstr("devices"),
                                 HasSubstr("inspect"), HasSubstr("Exit codes: 0 done, 1 an error")));
  EXPECT_THAT(outcome.err, IsEmpty());
}

TEST(CommandLine, EveryCommandExplainsItselfWithAnExample) {
  for (const char* command :
       {"devices", "inspect", "import", "train", "plan", "export", "eval", "generate"}) {
    const Outcome outcome = type({command, "--help"});
    EXPECT_EQ(outcome.code, kExitDone);
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("Example"), HasSubstr(std::string("  draftsmith ") + command)));
  }
}

TEST(CommandLine, VersionNamesBuildCompilerFeaturesAndLibraries) {
  const Outcome outcome = type({"--version"});
  EXPECT_EQ(outcome.code, kExitDone);
  EXPECT_THAT(outcome.out, ContainsRegex("^draftsmith [0-9]+\\.[0-9]+\\.[0-9]+\n"));
  EXPECT_THAT(outcome.out, ContainsRegex("  compiler   (GNU|Clang) [0-9]+"));
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("  build      "), HasSubstr("  features   ")));
  for (const char* library :
       {"oneDNN", "fmt", "nlohmann_json", "yaml-cpp", "CLI11", "pcre2", "utf8proc", "isa-l"}) {
    EXPECT_THAT(outcome.out, ContainsRegex(std::string(library) + " [0-9]+\\."));
  }
}

TEST(CommandLine, WrongUsageIsExitCodeTwoAndSaysWhatToTry) {
  Outcome outcome = type({});
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("draftsmith: A subcommand is required"), HasSubstr("draftsmith --help")));
  EXPECT_THAT(outcome.out, IsEmpty());

  outcome = type({"inspekt"});
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_THAT(outcome.err,
              HasSubstr("draftsmith: there is no command 'inspekt'; the nearest is 'inspect'. All of them: "
                        "devices, inspect, import, train, plan, export, eval, generate"));

  outcome = type({""});
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_THAT(outcome.err, HasSubstr("draftsmith: there is no command ''"));

  outcome = type({"inspect"});
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("path is required"), HasSubstr("Try: draftsmith inspect --help")));

  outcome = type({"train", "run.yaml", "--retune"});
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_THAT(outcome.err, HasSubstr("--retune requires --resume"));

  outcome = type({"devices", "--fast"});
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_THAT(outcome.err, HasSubstr("--fast"));
}

TEST(CommandLine, AWordThatIsNearNoCommandGetsNoHint) {
  const Outcome outcome = type({"banana"});
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_THAT(outcome.err, HasSubstr("there is no command 'banana'. All of them: devices, "));
}

TEST(CommandLine, NumbersAreWholeAndInTheirRange) {
  struct Case {
    const char *command, *option, *value, *expected;
  };
  for (const Case& one : {Case{"eval", "--seed", "-1", "from 0 to 18446744073709551615, found -1"},
                          Case{"generate", "--seed", "18446744073709551616", "found 18446744073709551616"},
                          Case{"generate", "--seed", "1.5", "found 1.5"},
                          Case{"eval", "--conversations", "0", "from 1 to 1000000000, found 0"},
                          Case{"eval", "--conversations", "-3", "found -3"},
                          Case{"eval", "--max-new-tokens", "0", "from 1 to 1048576, found 0"},
                          Case{"generate", "--threads", "4294967297", "from 1 to 1024, found 4294967297"}}) {
    const Outcome outcome = type({one.command, "folder", std::string(one.option) + "=" + one.value});
    EXPECT_EQ(outcome.code, kExitUsage) << one.option << one.value;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr(one.option), HasSubstr(one.expected)));
  }
}

TEST(CommandLine, AnErrorSendsNoControlCharacterToTheTerminal) {
  EXPECT_THAT(type({"inspect", "no\x1b[31m"}).err, HasSubstr("draftsmith: no\\u001b[31m: "));
}

TEST(CommandLine, AnErrorIsExitCodeOneAndItsMessage) {
  const Outcome outcome = type({"inspect", "no/such/folder"});
  EXPECT_EQ(outcome.code, kExitError);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("draftsmith: no/such/folder: there is no such file or folder"),
                                 HasSubstr(std::filesystem::current_path().string())));
}

TEST(CommandLine, DevicesSaysWhatEachNameIsGoodFor) {
  const Outcome outcome = type({"devices"});
  EXPECT_EQ(outcome.code, kExitDone);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("cpu:0, cpu:1, ...  logical devices on "), HasSubstr("cuda:0")));
}

TEST(CommandLine, InspectShowsConfigurationAndTensorsOfAFolder) {
  const Outcome outcome = type({"inspect", DRAFTSMITH_SOURCE_DIR "/tests/golden/spec_tiny/drafter"});
  EXPECT_EQ(outcome.code, kExitDone);
  EXPECT_THAT(outcome.out, HasSubstr("\"block_size\": 8"));
  EXPECT_THAT(outcome.out, ContainsRegex("fc\\.weight +F32 +32768  \\[64, 128\\]"));
  EXPECT_THAT(outcome.out, ContainsRegex("[0-9]+ tensors, [0-9]+ elements, [0-9]+ bytes\n$"));
}

TEST(CommandLine, InspectJoinsShardsAndReadsSingleFiles) {
  const std::string folder = DRAFTSMITH_SOURCE_DIR "/tests/golden/target_qwen3_wide_head_sharded";
  EXPECT_THAT(type({"inspect", folder}).out, HasSubstr("model.embed_tokens.weight"));
  const Outcome outcome = type({"inspect", folder + "/model-00001-of-00005.safetensors"});
  EXPECT_EQ(outcome.code, kExitDone);
  EXPECT_THAT(outcome.out, HasSubstr(" tensors, "));
}

TEST(CommandLine, InspectRefusesAFolderWithoutAModel) {
  const Outcome outcome = type({"inspect", DRAFTSMITH_SOURCE_DIR "/tests"});
  EXPECT_EQ(outcome.code, kExitError);
  EXPECT_THAT(
      outcome.err,
      HasSubstr("expected a model's folder (config.json or model.safetensors), a run's or a checkpoint's"));
}

}  // namespace
}  // namespace draftsmith
