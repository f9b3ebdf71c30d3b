#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/file.h"
#include "support/expect_error.h"
#include "train/tiny_run.h"

namespace draftsmith {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// A run that is stopped by a hook as a signal would, once `step` is exchanged.
void stop_in_step(TinyRun& run, std::int64_t step) {
  run.hooks.at = [&run, step](PipelinePoint point, std::int64_t index, Slot*) {
    if (point == PipelinePoint::exchange && index == step) run.stop_signal = 15;
  };
}

void use_three_drafters(TinyRun& run) { run.config.devices.drafters = {"cpu:1", "cpu:2", "cpu:3"}; }

TEST(Resume, ThirtyAndThirtyStepsAreSixty) {
  TinyRun straight, parted;
  for (TinyRun* run : {&straight, &parted}) {
    run->config.train.steps = 60;
    run->config.train.checkpoint.every = 10;
    run->config.train.eval.every = 15;
    run->evaluation_documents = 6;
    use_three_drafters(*run);
  }
  straight.train();
  stop_in_step(parted, 30);
  const TrainResult first = parted.train();
  EXPECT_TRUE(first.stopped());
  EXPECT_EQ(first.step, 30);
  EXPECT_EQ(first.checkpoint.step, 30);
  parted.hooks = {};
  parted.stop_signal = 0;
  const TrainResult second = parted.train(ExistingFolder::resume);
  EXPECT_FALSE(second.stopped());
  EXPECT_EQ(straight.state(60), parted.state(60));
  expect_same_steps(straight.steps(), parted.steps());
  expect_same_evaluations(straight.evaluations(), parted.evaluations());
}

TEST(Resume, TheLogIsCutToTheCheckpointAndThePositionGoesOnAcrossEpochs) {
  TinyRun straight, parted;
  for (TinyRun* run : {&straight, &parted}) {
    run->documents = 5;  // an epoch is about a step
    run->config.train.steps = 9;
    run->config.train.checkpoint.every = 4;
  }
  straight.train();
  stop_in_step(parted, 6);
  parted.train();
  fs::remove_all(parted.folder().checkpoint(6));  // as if killed after step 6 was logged
  ASSERT_EQ(parted.steps().back().step, 6);
  parted.hooks = {};
  parted.stop_signal = 0;
  EXPECT_EQ(parted.train(ExistingFolder::resume).report->first_step, 5);
  EXPECT_EQ(straight.state(9), parted.state(9));
  expect_same_steps(straight.steps(), parted.steps());
  EXPECT_GT(straight.steps().back().epoch, 1);
}

TEST(Resume, AnotherNumberOfTargetsAndSlotsChangesNoBit) {
  TinyRun straight, parted;
  straight.train();
  stop_in_step(parted, 3);
  parted.train();
  parted.hooks = {};
  parted.stop_signal = 0;
  parted.config.devices.targets = {"cpu:0", "cpu:2"};
  parted.config.devices.queue.slots = 5;
  parted.train(ExistingFolder::resume);
  EXPECT_EQ(straight.state(6), parted.state(6));
}

TEST(Resume, AShardedRunMayGoOnWholeAndBack) {
  TinyRun straight, parted;
  for (TinyRun* run : {&straight, &parted}) {
    use_three_drafters(*run);
    run->config.train.steps = 9;
  }
  straight.train();
  parted.config.train.optimizer.shard = true;
  stop_in_step(parted, 3);
  parted.train();
  parted.config.train.optimizer.shard = false;
  stop_in_step(parted, 6);
  parted.stop_signal = 0;
  parted.train(ExistingFolder::resume);
  parted.config.train.optimizer.shard = true;
  parted.hooks = {};
  parted.stop_signal = 0;
  parted.train(ExistingFolder::resume);
  EXPECT_EQ(straight.state(9), parted.state(9));
  expect_same_steps(straight.steps(), parted.steps());
}

TEST(Resume, ChangedDataIsRefused) {
  TinyRun run;
  stop_in_step(run, 2);
  run.train();
  run.documents = 39;
  expect_error([&] { run.train(ExistingFolder::resume); }, {"training data has changed", "40 documents"});
}

TEST(Resume, ALogThatLostItsPastIsToldOf) {
  TinyRun run;
  run.config.train.steps = 8;
  stop_in_step(run, 4);
  run.train();
  const auto resume_until = [&](std::int64_t step) {
    stop_in_step(run, step);
    run.stop_signal = 0;
    run.train(ExistingFolder::resume);
  };
  resume_until(5);
  EXPECT_EQ(run.said().find("no entries"), std::string::npos);
  std::string log = read_text_file(run.folder().metrics());
  for (int line = 0; line < 2; ++line) log.erase(0, log.find('\n') + 1);
  atomic_write_file(run.folder().metrics(), log);
  resume_until(6);
  EXPECT_THAT(run.said(),
              HasSubstr(run.folder().metrics().string() +
                        ": the log goes on without what was before: it has no entries of steps 1..2\n"));
  fs::remove(run.folder().metrics());
  resume_until(7);
  EXPECT_THAT(run.said(), HasSubstr("it has no entries of steps 1..6\n"));
}

TEST(Resume, ACompleteRunHasNothingLeftToDo) {
  TinyRun run;
  run.evaluation_documents = 6;
  const TrainResult first = run.train();
  const TrainResult again = run.train(ExistingFolder::resume);
  EXPECT_FALSE(again.report.has_value());
  EXPECT_FALSE(again.stopped());
  EXPECT_EQ(again.checkpoint.path, first.checkpoint.path);
  EXPECT_EQ(again.evaluation->acceptance, first.evaluation->acceptance);
  EXPECT_EQ(run.steps().size(), 6u);
}

// In its last step a run was asked to stop: all steps are made, and the evaluation after them is not.
TEST(Resume, TheEvaluationAfterTheLastStepIsMadeUpFor) {
  for (const bool by_epochs : {false, true}) {
    TinyRun straight, parted;
    for (TinyRun* run : {&straight, &parted}) {
      run->evaluation_documents = 6;
      use_three_drafters(*run);
      if (!by_epochs) continue;
      run->config.train.steps.reset();
      run->config.train.epochs = 2;
    }
    const std::int64_t last = straight.train().steps;
    stop_in_step(parted, last);
    const TrainResult first = parted.train();
    EXPECT_EQ(first.step, last);
    EXPECT_TRUE(first.stopped());
    EXPECT_TRUE(parted.evaluations().empty());
    parted.hooks = {};
    parted.stop_signal = 0;
    EXPECT_FALSE(parted.train(ExistingFolder::resume).stopped());
    EXPECT_EQ(straight.state(last), parted.state(last));
    expect_same_steps(straight.steps(), parted.steps());
    expect_same_evaluations(straight.evaluations(), parted.evaluations());
    EXPECT_TRUE(best_checkpoint(parted.folder()).has_value());
  }
}

TEST(Resume, ADamagedCheckpointIsNamedAndAnOlderOneOffered) {
  TinyRun run;
  run.config.train.checkpoint.every = 2;
  stop_in_step(run, 4);
  run.train();
  run.hooks = {};
  run.stop_signal = 0;
  const fs::path state = run.folder().checkpoint(4) / "state.safetensors";
  std::fstream file(state, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-5, std::ios::end);
  file.put('x');
  file.close();
  expect_error([&] { run.train(ExistingFolder::resume); },
               {state.string(), "checksum", "The checkpoint of step 2 is whole", "remove"});
  fs::remove_all(run.folder().checkpoint(4));
  EXPECT_EQ(run.train(ExistingFolder::resume).report->first_step, 3);
}

TEST(Checkpoints, TheNewestAndTheBestAreKept) {
  TinyRun run;
  run.config.train.steps = 8;
  run.config.train.checkpoint = {.every = 1, .keep = 2};
  run.config.train.eval.every = 1;
  run.evaluation_documents = 6;
  run.train();
  double best = 0;
  std::int64_t best_step = 0;
  for (const EvaluationRecord& record : run.evaluations()) {
    if (record.acceptance > best) best_step = record.step, best = record.acceptance;
  }
  std::vector<std::int64_t> expected = {7, 8};
  if (best_step < 7) expected.insert(expected.begin(), best_step);
  std::vector<std::int64_t> found;
  for (const CheckpointFolder& checkpoint : list_checkpoints(run.folder())) found.push_back(checkpoint.step);
  EXPECT_EQ(found, expected);
  EXPECT_EQ(best_checkpoint(run.folder())->step, best_step);
}

// The one that was reached first: what came later cost more and is worth no more.
TEST(Checkpoints, OfEquallyGoodOnesTheEarlierIsTheBest) {
  TinyRun run;
  run.evaluation_documents = 6;
  run.train();
  fs::copy(run.folder().checkpoint(6), run.folder().checkpoint(7), fs::copy_options::recursive);
  EXPECT_EQ(best_checkpoint(run.folder())->step, 6);
}

TEST(Checkpoints, OneIsWrittenAtEachEvaluationThatImproves) {
  TinyRun run;
  run.config.train.steps = 40;
  run.config.train.checkpoint = {.every = 0, .keep = 50};
  run.config.train.eval.every = 5;
  run.evaluation_documents = 6;
  run.train();
  std::vector<std::int64_t> expected;
  double best = 0;
  for (const EvaluationRecord& record : run.evaluations()) {
    if (record.acceptance > best || record.step == 40) expected.push_back(record.step);
    best = std::max(best, record.acceptance);
  }
  std::vector<std::int64_t> found;
  for (const CheckpointFolder& checkpoint : list_checkpoints(run.folder())) found.push_back(checkpoint.step);
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace draftsmith
