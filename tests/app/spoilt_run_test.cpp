// Runs whose folder, disk or checkpoint is bad: the message says so, and what was there before stays.
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/commands.h"
#include "app/scene.h"
#include "data/file.h"
#include "data/folder_lock.h"
#include "data/snapshot.h"
#include "train/run_folder.h"

namespace draftsmith {
namespace {

using testing::AllOf;
using testing::HasSubstr;

namespace fs = std::filesystem;

std::string run_yaml(const Scene& scene) { return (scene.path() / "run.yaml").string(); }
RunFolder run_folder(const Scene& scene) { return {scene.path() / "run"}; }

// The program in a process whose files cannot grow beyond `most_bytes`, as on a disk that is full: writing
// fails in the middle. What it prints goes to stderr.txt in the scene.
Outcome type_on_a_full_disk(const Scene& scene, std::vector<std::string> words, rlim_t most_bytes) {
  words.insert(words.begin(), DRAFTSMITH_PROGRAM);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const fs::path log = scene.path() / "stderr.txt";
  const pid_t process = ::fork();
  if (process == 0) {
    const int file = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    ::dup2(file, STDOUT_FILENO);
    ::dup2(file, STDERR_FILENO);
    ::signal(SIGXFSZ, SIG_IGN);  // an error of write(), not the end of the process
    const rlimit limit{.rlim_cur = most_bytes, .rlim_max = most_bytes};
    if (::setrlimit(RLIMIT_FSIZE, &limit) == 0) ::execv(DRAFTSMITH_PROGRAM, pointers.data());
    ::_exit(99);
  }
  int status = 0;
  ::waitpid(process, &status, 0);
  return {.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          .out = "",
          .err = read_text_file(log)};
}

bool has_leftovers(const fs::path& folder) {
  for (const auto& item : fs::recursive_directory_iterator(folder)) {
    if (item.path().filename().string().starts_with(kTemporaryPrefix)) return true;
  }
  return false;
}

TEST(SpoiltRun, ADiskThatFillsUpEndsTrainingAndTheRunCanBeginAnew) {
  const Scene scene;
  const Outcome outcome = type_on_a_full_disk(scene, {"train", run_yaml(scene)}, 1 << 16);
  EXPECT_EQ(outcome.code, kExitError) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("state.safetensors"), HasSubstr("File too large")));
  EXPECT_TRUE(list_checkpoints(run_folder(scene)).empty());
  const Outcome again = type({"train", run_yaml(scene), "--overwrite"});
  EXPECT_EQ(again.code, kExitDone) << again.err;
  EXPECT_FALSE(has_leftovers(scene.path() / "run"));
}

TEST(SpoiltRun, AnExportOntoAFullDiskKeepsTheOlderOne) {
  const Scene scene;
  ASSERT_EQ(type({"train", run_yaml(scene)}).code, kExitDone);
  const fs::path weights = run_folder(scene).exported() / "model.safetensors";
  const std::string before = read_text_file(weights);
  const Outcome outcome = type_on_a_full_disk(scene, {"export", run_folder(scene).path.string()}, 1 << 16);
  EXPECT_EQ(outcome.code, kExitError) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("model.safetensors"), HasSubstr("File too large")));
  EXPECT_TRUE(read_text_file(weights) == before);
  EXPECT_FALSE(has_leftovers(scene.path() / "run"));
}

TEST(SpoiltRun, TwoRunsDoNotShareAFolder) {
  const Scene scene;
  ASSERT_EQ(type({"train", run_yaml(scene)}).code, kExitDone);
  const FolderLock other(run_folder(scene).path);
  for (const char* how : {"--overwrite", "--resume"}) {
    const Outcome outcome = type({"train", run_yaml(scene), how});
    EXPECT_EQ(outcome.code, kExitError);
    EXPECT_THAT(outcome.err, HasSubstr("held by process " + std::to_string(::getpid())));
  }
  EXPECT_EQ(list_checkpoints(run_folder(scene)).size(), 1u);
  EXPECT_TRUE(fs::exists(run_folder(scene).exported() / "model.safetensors"));
}

// Its config.yaml names the folder where it began, and another run may be there by now.
TEST(SpoiltRun, AMovedRunGoesOnWhereItIsSaidTo) {
  const Scene scene;
  ASSERT_EQ(type({"train", run_yaml(scene)}).code, kExitDone);
  const RunFolder moved{scene.path() / "moved run"};
  fs::rename(run_folder(scene).path, moved.path);
  for (const char* how : {"--resume", "--overwrite"}) {
    const Outcome outcome = type({"train", moved.config().string(), how});
    EXPECT_EQ(outcome.code, kExitError);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("this run began in " + run_folder(scene).path.string()),
                                   HasSubstr("output=" + moved.path.string())));
  }
  EXPECT_EQ(type({"train", moved.config().string(), "--resume", "output=" + moved.path.string()}).code,
            kExitDone);
  EXPECT_FALSE(fs::exists(run_folder(scene).path));
}

TEST(SpoiltRun, ACheckpointIsNoDrafter) {
  const Scene scene;
  ASSERT_EQ(type({"train", run_yaml(scene)}).code, kExitDone);
  const fs::path checkpoint = list_checkpoints(run_folder(scene)).back().path;
  const Outcome outcome = type({"generate", checkpoint.string(), "--prompt", "Hi"});
  EXPECT_EQ(outcome.code, kExitError);
  EXPECT_THAT(outcome.err, HasSubstr("this is a checkpoint of a run, not a drafter"));
}

TEST(SpoiltRun, InspectNamesWhatACheckpointLacks) {
  const Scene scene;
  ASSERT_EQ(type({"train", run_yaml(scene)}).code, kExitDone);
  const fs::path checkpoint = list_checkpoints(run_folder(scene)).back().path;
  fs::remove(checkpoint / "drafter.json");
  EXPECT_THAT(type({"inspect", checkpoint.string()}).err,
              AllOf(HasSubstr("drafter.json: expected a file of "), HasSubstr("use another one")));
  EXPECT_THAT(type({"inspect", run_folder(scene).path.string()}).out,
              AllOf(HasSubstr("0 checkpoints\n"), HasSubstr("  not complete: "),
                    HasSubstr("drafter.json: expected")));
  fs::remove(checkpoint / "checksums.json");
  EXPECT_THAT(type({"inspect", checkpoint.string()}).err,
              HasSubstr("checksums.json, found no such file; the snapshot is damaged"));
}

TEST(SpoiltRun, OverwriteWithATargetThatIsCutShortKeepsTheOlderRun) {
  const Scene scene;
  ASSERT_EQ(type({"train", run_yaml(scene)}).code, kExitDone);
  const std::string before = read_text_file(run_folder(scene).exported() / "model.safetensors");
  scene.write("model.safetensors", scene.read("model.safetensors").substr(0, 5'000'000));
  const Outcome outcome = type({"train", run_yaml(scene), "--overwrite"});
  EXPECT_EQ(outcome.code, kExitError);
  EXPECT_THAT(outcome.err, HasSubstr("the file is cut short"));
  EXPECT_EQ(list_checkpoints(run_folder(scene)).size(), 1u);
  EXPECT_TRUE(read_text_file(run_folder(scene).exported() / "model.safetensors") == before);
}

TEST(SpoiltRun, ALineOfManyMegabytesIsCutAndCounted) {
  const Scene scene;
  std::string answer;
  while (answer.size() < (8 << 20)) answer += "word ";
  scene.line(R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": ")" +
             answer + R"("}]})");
  const Outcome outcome = type({"train", run_yaml(scene)});
  EXPECT_EQ(outcome.code, kExitDone) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("3 documents (0 skipped, 1 cut)"));
}

TEST(SpoiltRun, TextsAndTokensTrainToo) {
  const Scene scene;
  for (const char* lines : {R"({"text": "Once upon a time there was a lake."})",
                            R"({"input_ids": [5, 6, 7, 8, 9, 10], "loss_mask": [0, 0, 1, 1, 1, 0]})"}) {
    scene.data(lines);
    const Outcome outcome = type({"train", run_yaml(scene), "--overwrite"});
    EXPECT_EQ(outcome.code, kExitDone) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("1 documents (0 skipped, 0 cut)"));
  }
}

TEST(SpoiltRun, ADrafterThatCannotBeServedIsRefusedBeforeDecoding) {
  const Scene scene;
  ASSERT_EQ(type({"train", run_yaml(scene)}).code, kExitDone);
  const fs::path weights = run_folder(scene).exported() / "model.safetensors";
  const std::string whole = read_text_file(weights);
  const auto generate = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"generate", run_folder(scene).path.string(), "--threads", "1"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = type(words);
    EXPECT_EQ(outcome.code, kExitError);
    return outcome.err;
  };
  EXPECT_THAT(generate({"--prompt", "Hi", "--device", "tpu:0"}), HasSubstr("device 'tpu:0' is not known"));
  EXPECT_THAT(generate({"--prompt", "\xff"}), HasSubstr("UTF-8"));
  fs::remove(run_folder(scene).exported() / kChecksumFile);
  atomic_write_file(weights, whole.substr(0, whole.size() / 2));
  EXPECT_THAT(generate({"--prompt", "Hi"}), HasSubstr("the file is cut short"));
  atomic_write_file(weights, whole.substr(0, whole.size() - 2) + "\xc0\x7f");  // the last value is NaN
  EXPECT_THAT(generate({"--prompt", "Hi"}), AllOf(HasSubstr("model.safetensors"), HasSubstr("not finite")));
}

// The list of an export is held against it; a folder without one, as others write it, is taken as it is.
TEST(SpoiltRun, AnExportThatWasDamagedOrMixedIsRefusedBeforeDecoding) {
  const Scene scene;
  ASSERT_EQ(type({"train", run_yaml(scene)}).code, kExitDone);
  const fs::path exported = run_folder(scene).exported();
  const auto decode = [&](const std::string& command) {
    std::vector<std::string> words = {
        command, run_folder(scene).path.string(), "--threads", "1", "--max-new-tokens", "2"};
    if (command == "generate") words.insert(words.end(), {"--prompt", "Hi"});
    if (command == "eval") words.insert(words.end(), {"--data", (scene.path() / "data.jsonl").string()});
    return type(words);
  };
  atomic_write_file(exported / "README.md", "my own words");  // nothing that is loaded
  EXPECT_EQ(decode("generate").code, kExitDone);
  std::string bytes = read_text_file(exported / "model.safetensors");
  bytes[bytes.size() - 1000] ^= 1;
  atomic_write_file(exported / "model.safetensors", bytes);
  for (const char* command : {"generate", "eval"}) {
    const Outcome outcome = decode(command);
    EXPECT_EQ(outcome.code, kExitError);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("model.safetensors: expected checksum"),
                                   HasSubstr("export it again"), HasSubstr("remove checksums.json")));
  }
  fs::remove(exported / kChecksumFile);
  for (const char* command : {"generate", "eval"}) EXPECT_EQ(decode(command).code, kExitDone);
}

TEST(SpoiltRun, TheMaskTokenInTheDataIsWarnedOf) {
  const Scene scene;
  ASSERT_EQ(type({"train", run_yaml(scene)}).err.find("mask token, "), std::string::npos);
  scene.data(R"({"text": "fill nothing"})"
             "\n"
             R"({"text": "fill <|MASK|> and <|MASK|>", "id": "a name"})");
  const Outcome outcome = type({"train", run_yaml(scene), "--overwrite"});
  EXPECT_EQ(outcome.code, kExitDone) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("data.jsonl:2: the data holds the drafter's mask token, 4095"),
                                 HasSubstr("2 times in all, in 1 document")));
}

TEST(SpoiltRun, PlanChecksTheDrafterToBeginWith) {
  const Scene scene;
  ASSERT_EQ(type({"train", run_yaml(scene)}).code, kExitDone);
  const auto plan = [&](const std::string& init, const std::string& more) {
    return type({"plan", run_yaml(scene), "drafter.init=" + init, more});
  };
  const std::string exported = run_folder(scene).exported().string();
  EXPECT_EQ(plan(exported, "drafter.intermediate=64").code, kExitDone);
  const Outcome other = plan(exported, "drafter.intermediate=32");
  EXPECT_EQ(other.code, kExitError);
  EXPECT_THAT(other.err,
              AllOf(HasSubstr("drafter.init"), HasSubstr("drafter.intermediate: 32 here, 64 there")));
  const Outcome nowhere = plan("nowhere", "drafter.intermediate=64");
  EXPECT_EQ(nowhere.code, kExitError);
  EXPECT_THAT(nowhere.err, HasSubstr("nowhere has no config.json; expected a drafter's folder"));
}

// Such as to train a drafter on for longer texts.
TEST(SpoiltRun, ADrafterToBeginWithThatTrainingHasToAdaptIsToldOf) {
  const Scene scene;
  ASSERT_EQ(type({"train", run_yaml(scene)}).code, kExitDone);
  for (const char* command : {"plan", "train"}) {
    const Outcome outcome = type(
        {command, run_yaml(scene), "drafter.init=" + run_folder(scene).exported().string(),
         "drafter.intermediate=64", "drafter.rms_norm_eps=1e-3",
         "drafter.rope.scaling={type: linear, factor: 4}", "output=" + (scene.path() / "adapted").string()});
    EXPECT_EQ(outcome.code, kExitDone) << outcome.err;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("to which training has to adapt it"),
                                   HasSubstr("drafter.rms_norm_eps: 0.001 here"),
                                   HasSubstr("drafter.rope.scaling.type: linear here, none there")));
  }
}

// A checkpoint that is whole by its checksums and yet belongs to another drafter.
TEST(SpoiltRun, ACheckpointOfOtherShapesIsNamed) {
  const Scene scene;
  const RunFolder other{scene.path() / "other"};
  ASSERT_EQ(type({"train", run_yaml(scene)}).code, kExitDone);
  ASSERT_EQ(type({"train", run_yaml(scene), "drafter.intermediate=32", "output=" + other.path.string()}).code,
            kExitDone);
  const fs::path checkpoint = run_folder(scene).checkpoint(1);
  {
    SnapshotWriter mixed(checkpoint);
    for (const char* file : {"state.json", "config.yaml", "drafter.json"}) {
      fs::copy_file(checkpoint / file, mixed.file(file));
    }
    fs::copy_file(other.checkpoint(1) / "state.safetensors", mixed.file("state.safetensors"));
    mixed.commit();
  }
  const Outcome outcome = type({"export", run_folder(scene).path.string()});
  EXPECT_EQ(outcome.code, kExitError);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("state.safetensors"), HasSubstr("mlp."), HasSubstr("[64, 256]"),
                                 HasSubstr("[32, 256]")));
}

}  // namespace
}  // namespace draftsmith
