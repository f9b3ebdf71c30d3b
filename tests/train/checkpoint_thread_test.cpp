// What becomes of a run whose folder is moved or removed while it runs: it ends, and its checkpoint is not lost.
#include "train/checkpoint_thread.h"

#include <filesystem>
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "data/file.h"
#include "support/expect_error.h"
#include "train/tiny_run.h"

namespace draftsmith {
namespace {

namespace fs = std::filesystem;

// Does something in step 3 of 6, of which the 4th is the next that has a checkpoint.
void in_step_3(TinyRun& run, const std::function<void()>& what) {
  run.config.train.checkpoint.every = 4;
  run.hooks.at = [what](PipelinePoint point, std::int64_t index, Slot*) {
    if (point == PipelinePoint::exchange && index == 3) what();
  };
}

TEST(MovedRunFolder, EndsTheRunWithACheckpointInItFromWhichItGoesOn) {
  TinyRun straight, run;
  straight.train();
  const fs::path path = run.config.output, moved = path.string() + "-moved";
  in_step_3(run, [&] { fs::rename(path, moved); });
  expect_error([&] { run.train(); },
               {path.string() + ": the run's folder was moved to " + fs::absolute(moved).string(),
                "The checkpoint of step 4 is in it", "--resume output="});
  EXPECT_FALSE(fs::exists(path));
  run.hooks = {};
  run.config.output = moved.string();
  EXPECT_EQ(run.train(ExistingFolder::resume).report->first_step, 5);
  EXPECT_EQ(straight.state(6), run.state(6));
  expect_same_steps(straight.steps(), run.steps());
}

TEST(RemovedRunFolder, EndsTheRunWithACheckpointInANewOneFromWhichItGoesOn) {
  TinyRun straight, run;
  straight.train();
  in_step_3(run, [&] { fs::remove_all(run.config.output); });
  expect_error([&] { run.train(); }, {run.config.output + ": the run's folder was removed while it ran",
                                      "checkpoint of step 4 is written to", "go on with --resume"});
  run.hooks = {};
  EXPECT_EQ(run.train(ExistingFolder::resume).report->first_step, 5);
  EXPECT_EQ(straight.state(6), run.state(6));
  EXPECT_NE(run.said().find("no entries of steps 1..4"), std::string::npos);
}

TEST(RemovedRunFolder, IsNotMistakenForAnotherOneOfItsName) {
  TinyRun run;
  in_step_3(run, [&] {
    fs::remove_all(run.config.output);
    fs::create_directory(run.config.output);
    atomic_write_file(fs::path(run.config.output) / "thesis.txt", "years of work");
  });
  expect_error([&] { run.train(); }, {"another one has its name", "checkpoint of step 4 has no place"});
  EXPECT_EQ(std::distance(fs::directory_iterator(run.config.output), fs::directory_iterator()), 1);
}

}  // namespace
}  // namespace draftsmith
