// A target or evaluation data that moved or changed between a run and its going on.
#include "train/resumed_run.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/file.h"
#include "data/safetensors.h"
#include "data/snapshot.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"
#include "train/export_run.h"
#include "train/target_identity.h"
#include "train/tiny_run.h"

namespace draftsmith {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Of 6.
void train_two_steps(TinyRun& run) {
  run.hooks.at = [&run](PipelinePoint point, std::int64_t index, Slot*) {
    if (point == PipelinePoint::exchange && index == 2) run.stop_signal = 15;
  };
  run.train();
  run.hooks = {};
  run.stop_signal = 0;
}

// From now on the run's target is a copy, which may be changed.
void train_on_a_copy(TinyRun& run, const fs::path& target) {
  fs::copy(run.config.target, target, fs::copy_options::recursive);
  run.config.target = target.string();
}

// Changes the lowest bit of a byte of a tensor of the target in `folder`.
void change_in_place(const fs::path& folder, const std::string& tensor, std::size_t at) {
  const fs::path weights = folder / "model.safetensors";
  std::size_t begin = 0;
  std::string bytes = read_text_file(weights);
  {
    const SafetensorsFile file(weights);
    ASSERT_LT(at, file.at(tensor).bytes.size());
    const std::span<const std::byte> found = file.at(tensor).bytes;
    begin = std::search(bytes.begin(), bytes.end(), reinterpret_cast<const char*>(found.data()),
                        reinterpret_cast<const char*>(found.data()) + found.size()) -
            bytes.begin();
  }
  bytes[begin + at] ^= 1;
  atomic_write_file(weights, bytes);
}

// Makes a checkpoint one whose facts are changed, and whole.
void change_facts(const fs::path& checkpoint, const std::function<void(std::string&)>& change) {
  const fs::path whole = checkpoint.string() + "-whole";
  fs::rename(checkpoint, whole);
  SnapshotWriter writer(checkpoint);
  for (const auto& item : fs::directory_iterator(whole)) {
    if (item.path().filename() != kChecksumFile) fs::copy(item.path(), writer.file(item.path().filename()));
  }
  std::string facts = read_text_file(whole / "state.json");
  change(facts);
  atomic_write_file(writer.file("state.json"), facts);
  writer.commit();
  fs::remove_all(whole);
}

// Makes a checkpoint one that says this in the place of its target's identity.
void replace_target(const fs::path& checkpoint, const std::string& target) {
  change_facts(checkpoint, [&](std::string& facts) {
    const std::size_t begin = facts.find("\"target\""), end = facts.find('}', begin);
    facts.replace(begin, end + 1 - begin, target);
  });
}

// A text after `from`, which is in the facts.
void replace_after(const std::string& from, const std::string& what, const std::string& with,
                   std::string& facts) {
  facts.replace(facts.find(what, facts.find(from)), what.size(), with);
}

// Another training of the same model was put in the target's place: every name, shape and size stays.
TEST(ResumedRun, ATargetThatChangedInPlaceIsRefused) {
  const TemporaryFolder place;
  const fs::path target = place.path() / "target";
  TinyRun run;
  train_on_a_copy(run, target);
  train_two_steps(run);
  const fs::path moved = place.path() / "moved";
  fs::rename(target, moved);
  run.config.target = moved.string();
  EXPECT_EQ(run.train(ExistingFolder::resume).report->first_step, 3);  // as it was, though elsewhere
  EXPECT_THAT(run.said(), HasSubstr("resuming after step 2; the target is now in " + moved.string() +
                                    ", the same as it was in " + target.string()));
  change_in_place(moved, "model.embed_tokens.weight", 0);
  expect_error([&] { run.train(ExistingFolder::resume); },
               {"the target in " + moved.string() + " is another one", target.string(), "--overwrite"});
  fs::rename(moved, target);
  run.config.target = target.string();
  expect_error([&] { run.train(ExistingFolder::resume); },
               {"the target in " + target.string() + " has changed", "--overwrite"});
}

TEST(ResumedRun, ACheckpointOfOneSampleATensorIsHeldAgainstOne) {
  const TemporaryFolder place;
  const fs::path target = place.path() / "target";
  TinyRun run;
  train_on_a_copy(run, target);
  train_two_steps(run);
  const std::int64_t one = identify_target(target, 1).checksum;
  replace_target(run.folder().checkpoint(2), fmt::format("\"target\": {{\"checksum\": {}}}", one));
  change_in_place(target, "model.embed_tokens.weight", 5000);
  EXPECT_EQ(run.train(ExistingFolder::resume).report->first_step, 3);  // beyond what it can see
  replace_target(run.folder().checkpoint(6), fmt::format("\"target\": {{\"checksum\": {}}}", one));
  change_in_place(target, "model.embed_tokens.weight", 0);
  expect_error([&] { run.train(ExistingFolder::resume); }, {"has changed"});
}

// Whole by its checksums, but not what a run can have written.
TEST(ResumedRun, ACheckpointWhoseFactsContradictItIsRefused) {
  struct Change {
    std::string what, with, said;
  };
  for (const Change& change :
       {Change{"\"step\": 2", "\"step\": 6", "expected step 2, as its folder says, found 6"},
        Change{"\"updates\": 2", "\"updates\": 99", "found 99 and 0"},
        Change{"\"place\": ", "\"place\": 99999", "expected a place among 40 documents"},
        Change{"\"epoch\": 0", "\"epoch\": 4000000000000", "epoch"}}) {
    TinyRun run;
    train_two_steps(run);
    change_facts(run.folder().checkpoint(2), [&](std::string& facts) {
      ASSERT_NE(facts.find(change.what), facts.npos) << facts;
      facts.replace(facts.find(change.what), change.what.size(), change.with);
    });
    expect_error([&] { run.train(ExistingFolder::resume); }, {"state.json", change.said});
  }
}

TEST(ResumedRun, ACheckpointThatDoesNotSayItsTargetKeepsItToItsPlace) {
  const TemporaryFolder place;
  TinyRun run;
  run.config.train.steps = 2;
  run.train();
  replace_target(run.folder().checkpoint(2), "\"was\": {}");
  EXPECT_FALSE(run.train(ExistingFolder::resume).stopped());
  const fs::path target = place.path() / "target";
  train_on_a_copy(run, target);
  expect_error([&] { run.train(ExistingFolder::resume); },
               {"and is " + target.string(), "older draftsmith", "--overwrite"});
}

// Two steps were made, and the second was scored as no drafter of blocks of 4 can be.
class ResumedOnOtherEvaluationData : public testing::Test {
 protected:
  ResumedOnOtherEvaluationData() {
    run_.evaluation_documents = 8;
    run_.config.train.eval = {.every = 2, .conversations = 8};
    run_.config.train.checkpoint = {.every = 0, .keep = 1};
    run_.config.train.steps = 2;
    run_.train();
    change_facts(run_.folder().checkpoint(2), [](std::string& facts) {
      replace_after("\"evaluation\"", "\"acceptance\"", "\"acceptance\": 9, \"was\"", facts);
    });
    export_run(run_.folder(), "best");
    run_.config.train.steps = 6;
    run_.hooks.at = [this](PipelinePoint point, std::int64_t step, Slot*) {
      if (point == PipelinePoint::checkpoint) written_.push_back(step);
    };
  }
  std::vector<std::int64_t> kept() const {
    std::vector<std::int64_t> steps;
    for (const CheckpointFolder& checkpoint : list_checkpoints(run_.folder()))
      steps.push_back(checkpoint.step);
    return steps;
  }

  TinyRun run_;
  std::vector<std::int64_t> written_;
  const std::string warning_ = "the evaluation data is not what steps before were scored on";
};

// A step that was scored on an easy set was the best of a run whose other steps were scored on a hard one.
TEST_F(ResumedOnOtherEvaluationData, ScoresAreComparedFromThereOnOnly) {
  run_.config.train.eval.conversations = 3;
  run_.train(ExistingFolder::resume);
  EXPECT_THAT(run_.said(), HasSubstr(warning_));
  EXPECT_THAT(written_, ElementsAre(4, 6));  // 4 is not due: it is the best on its set
  EXPECT_THAT(kept(), Not(testing::Contains(2)));
  const ExportedRun exported = export_run(run_.folder(), "best");
  EXPECT_TRUE(exported.best);
  EXPECT_FALSE(exported.kept.has_value());
  run_.config.train.steps = 8;
  const std::string said = run_.said();
  run_.train(ExistingFolder::resume);
  EXPECT_THAT(run_.said().substr(said.size()), Not(HasSubstr(warning_)));
}

TEST_F(ResumedOnOtherEvaluationData, ACheckpointThatDoesNotSayItsDataCountsAsOfTheSame) {
  change_facts(run_.folder().checkpoint(2),
               [](std::string& facts) { replace_after("\"evaluation\"", "\"data\"", "\"unsaid\"", facts); });
  run_.train(ExistingFolder::resume);
  EXPECT_THAT(run_.said(), Not(HasSubstr(warning_)));
  EXPECT_THAT(written_, ElementsAre(6));
  EXPECT_THAT(kept(), ElementsAre(2, 6));
  EXPECT_EQ(best_checkpoint(run_.folder())->step, 2);
}

}  // namespace
}  // namespace draftsmith
