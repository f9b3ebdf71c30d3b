#include "train/run_folder.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "data/folder_lock.h"
#include "support/expect_error.h"
#include "train/export_run.h"
#include "train/tiny_run.h"

namespace draftsmith {
namespace {

namespace fs = std::filesystem;

TEST(RunFolder, AnExistingRunIsRefusedAndOverwrittenOnlyWhenAsked) {
  TinyRun run;
  run.config.train.steps = 2;
  run.train();
  expect_error([&] { run.train(); }, {"--resume", "--overwrite", run.config.output});
  run.config.train.steps = 3;
  run.train(ExistingFolder::overwrite);
  EXPECT_EQ(run.steps().size(), 3u);
  EXPECT_FALSE(fs::exists(run.folder().checkpoint(2)));
}

// A start that fails costs the older run nothing, and what the run did not write stays for good.
TEST(RunFolder, OverwriteTouchesTheOlderRunOnlyWhenTheNewOneHasBegun) {
  TinyRun run;
  run.config.train.steps = 2;
  run.train();
  std::ofstream(fs::path(run.config.output) / "notes.txt") << "mine";
  run.config.drafter.init = "nowhere";
  expect_error([&] { run.train(ExistingFolder::overwrite); }, {"nowhere"});
  EXPECT_TRUE(fs::exists(run.folder().checkpoint(2)));
  run.config.drafter.init.clear();
  run.config.train.steps = 3;
  run.train(ExistingFolder::overwrite);
  EXPECT_FALSE(fs::exists(run.folder().checkpoint(2)));
  EXPECT_TRUE(fs::exists(fs::path(run.config.output) / "notes.txt"));
}

// Killed before its first checkpoint, it would leave neither; a link hides nothing.
TEST(RunFolder, OverwriteRemovesNothingThatTheNewRunReads) {
  TinyRun run;
  run.config.train.steps = 2;
  run.train();
  const fs::path exported = export_run(run.folder(), "last").folder;
  const fs::path link = fs::path(run.config.output + "-link");
  fs::create_directory(link);
  fs::create_symlink(exported / "config.json", link / "config.json");
  fs::create_symlink(exported / "model.safetensors", link / "model.safetensors");
  std::ofstream(exported / "mine.jsonl") << "kept by --overwrite";
  for (const fs::path& init : {exported, link}) {
    run.config.drafter.init = init;
    expect_error([&] { run.train(ExistingFolder::overwrite); },
                 {"drafter.init: " + init.string() + " is or lies in ", "which --overwrite removes", "copy"});
    EXPECT_TRUE(fs::exists(run.folder().checkpoint(2)));
  }
  run.config.drafter.init.clear();
  run.config.data.eval = run.folder().metrics();
  expect_error([&] { run.train(ExistingFolder::overwrite); }, {"data.eval: ", "metrics.jsonl"});
  run.config.data.eval = exported / "mine.jsonl";
  run.train(ExistingFolder::overwrite);
  EXPECT_TRUE(fs::exists(exported / "mine.jsonl"));
}

TEST(RunFolder, NeitherAnExportNorANewRunReplacesWhatIsNoFolder) {
  TinyRun run;
  run.config.train.steps = 1;
  run.train();
  const auto refused = [&](const std::string& found) {
    expect_error([&] { export_run(run.folder(), "last"); },
                 {"/export: expected the folder of an export", found});
    expect_error([&] { run.train(ExistingFolder::overwrite); }, {"/export: expected the folder", found});
  };
  std::ofstream(run.folder().exported()) << "mine";
  refused("found a file");
  fs::remove(run.folder().exported());
  fs::create_directory_symlink("elsewhere", run.folder().exported());
  refused("found a link to elsewhere");
}

TEST(RunFolder, AFolderThatALinkNamesButIsNotThereIsNotMade) {
  TinyRun run;
  fs::create_symlink("nowhere", run.config.output);
  expect_error([&] { run.train(); }, {run.config.output + ": expected a folder, found a link to nowhere"});
}

// Once the missing folder is made, the path would lead into what nobody has looked at.
TEST(RunFolder, APathThroughWhatIsNotThereIsRefused) {
  TinyRun run;
  run.config.train.steps = 2;
  run.train();
  run.config.output = run.folder().path.parent_path() / "missing/.." / run.folder().path.filename();
  for (const ExistingFolder existing : {ExistingFolder::refuse, ExistingFolder::overwrite}) {
    expect_error([&] { run.train(existing); }, {"missing/..", "goes through what is not; write "});
  }
}

TEST(RunFolder, AStartThatFailedDoesNotBlockTheNextOne) {
  TinyRun run;
  run.config.train.steps = 2;
  run.config.drafter.init = "nowhere";
  expect_error([&] { run.train(); }, {"nowhere"});
  run.config.drafter.init.clear();
  run.train();
  EXPECT_EQ(run.steps().size(), 2u);
}

// Killed while its folder was being begun, a run leaves no folder that blocks the next start.
TEST(RunFolder, WhatAKilledStartLeavesCanBeBegunAnew) {
  TinyRun run;
  run.config.train.steps = 2;
  fs::create_directories(run.config.output);
  std::ofstream(fs::path(run.config.output) / ".tmp-config.yaml-1-0") << "half";
  run.train();
  fs::remove_all(run.folder().checkpoints());
  run.train(ExistingFolder::overwrite);
  EXPECT_EQ(run.steps().size(), 2u);
}

TEST(RunFolder, OverwriteNeverRemovesWhatIsNoRun) {
  TinyRun run;
  fs::create_directories(run.config.output);
  std::ofstream(fs::path(run.config.output) / "thesis.txt") << "years of work";
  for (const ExistingFolder existing : {ExistingFolder::refuse, ExistingFolder::overwrite})
    expect_error([&] { run.train(existing); },
                 {"expected a new or empty folder or a run's", "does not remove"});
  // A folder with a config.yaml of something else is no run either.
  fs::create_directories(run.folder().checkpoints());
  std::ofstream(run.folder().config()) << "model: resnet\n";
  std::ofstream(run.folder().checkpoints() / "model.pt") << "weights";
  expect_error([&] { run.train(ExistingFolder::overwrite); },
               {"does not remove", "a run of an older draftsmith", "remove the folder yourself"});
  EXPECT_TRUE(fs::exists(fs::path(run.config.output) / "thesis.txt"));
  EXPECT_TRUE(fs::exists(run.folder().checkpoints() / "model.pt"));
}

TEST(RunFolder, ResumingNeedsARun) {
  TinyRun run;
  expect_error([&] { run.train(ExistingFolder::resume); }, {"no run to resume"});
}

TEST(RunFolder, ARunThatEndedBeforeItsFirstCheckpointMustBeginAnew) {
  TinyRun run;
  fs::create_directories(run.folder().checkpoints());
  expect_error([&] { run.train(ExistingFolder::resume); },
               {"complete checkpoint, found none", "--overwrite"});
}

// The advice was a loop: without --resume the run was there, with it there was none.
TEST(RunFolder, ARunWithoutItsFolderOfCheckpointsIsNamedAndItsExportIsNotForgotten) {
  TinyRun run;
  run.config.train.steps = 1;
  run.train();
  export_run(run.folder(), "last");
  fs::remove_all(run.folder().checkpoints());
  expect_error([&] { run.train(ExistingFolder::resume); },
               {"/checkpoints: expected the checkpoints of this run, found no such folder", "--overwrite"});
  expect_error([&] { run.train(); }, {"--overwrite removes that run, its export too, and begins anew"});
}

// An error that only said "none" hid that two were there, and what had happened to them.
TEST(RunFolder, WithEveryCheckpointCutResumingNamesTheFilesAndTheirSizes) {
  TinyRun run;
  run.config.train.steps = 2;
  run.config.train.checkpoint.every = 1;
  run.train();
  for (const std::int64_t step : {1, 2}) {
    fs::resize_file(run.folder().checkpoint(step) / "state.safetensors", 100);
  }
  const std::string first = (run.folder().checkpoint(1) / "state.safetensors").string();
  const std::string second = (run.folder().checkpoint(2) / "state.safetensors").string();
  run.config.train.steps = 3;
  expect_error([&] { run.train(ExistingFolder::resume); },
               {"complete checkpoint, found none: " + first + ": expected ", " bytes, found 100; " + second,
                "--overwrite"});
  expect_error([&] { export_run(run.folder(), "last"); }, {first, second, "found 100"});
}

TEST(RunFolder, TwoRunsDoNotShareAFolder) {
  TinyRun run;
  run.hooks.at = [&run](PipelinePoint point, std::int64_t index, Slot*) {
    if (point != PipelinePoint::exchange || index != 1) return;
    TinyRun other;
    other.config.output = run.config.output;
    expect_error([&] { other.train(ExistingFolder::resume); }, {"no other run uses"});
  };
  run.config.train.steps = 1;
  run.train();
}

// Of an export and of a checkpoint that were being written when their process was killed.
TEST(RunFolder, LeftoversGoWithAnExportAndWithAResumeThatHasNoStepsLeft) {
  TinyRun run;
  run.config.train.steps = 1;
  run.train();
  const fs::path left[] = {run.folder().path / ".tmp-export-1-0",
                           run.folder().checkpoints() / ".tmp-step-00000001-1-0"};
  const auto leave = [&] {
    for (const fs::path& folder : left) {
      fs::create_directory(folder);
      std::ofstream(folder / "half.safetensors") << "half";
    }
  };
  leave();
  {
    const FolderLock other(run.folder().path);  // of a run that goes on: they may be its own
    EXPECT_EQ(export_run(run.folder(), "last").checkpoint.step, 1);
    for (const fs::path& folder : left) EXPECT_TRUE(fs::exists(folder)) << folder;
  }
  export_run(run.folder(), "last");
  for (const fs::path& folder : left) EXPECT_FALSE(fs::exists(folder)) << folder;
  leave();
  EXPECT_FALSE(run.train(ExistingFolder::resume).report.has_value());
  for (const fs::path& folder : left) EXPECT_FALSE(fs::exists(folder)) << folder;
}

// What a kill before the first checkpoint leaves cannot be gone on with.
TEST(RunFolder, WithoutACheckpointOnlyOverwritingIsOffered) {
  TinyRun run;
  run.train();
  expect_error([&] { run.train(); }, {"the folder is there already. --resume goes on with the run in it"});
  std::filesystem::remove_all(run.folder().checkpoints());
  expect_error([&] { run.train(); }, {"the folder is there already. --overwrite removes that run"});
}

}  // namespace
}  // namespace draftsmith
