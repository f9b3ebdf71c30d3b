// A target that moved or changed between a run and its going on.
#include "train/resumed_run.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/file.h"
#include "data/safetensors.h"
#include "data/snapshot.h"
#include "support/expect_error.h"
#include "support/temporary_folder.h"
#include "train/target_identity.h"
#include "train/tiny_run.h"

namespace draftsmith {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Of 6.
void train_two_steps(TinyRun& run) {
  run.hooks.at = [&run](PipelinePoint point, std::int64_t index, Slot*) {
    if (point == PipelinePoint::exchange && index == 2) run.stop_signal = 15;
  };
  run.train();
  run.hooks = {};
  run.stop_signal = 0;
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

// Makes a checkpoint one that says this in the place of its target's identity.
void replace_facts(const fs::path& checkpoint, const std::string& target) {
  const fs::path whole = checkpoint.string() + "-whole";
  fs::rename(checkpoint, whole);
  SnapshotWriter writer(checkpoint);
  for (const auto& item : fs::directory_iterator(whole)) {
    if (item.path().filename() != kChecksumFile) fs::copy(item.path(), writer.file(item.path().filename()));
  }
  std::string facts = read_text_file(whole / "state.json");
  const std::size_t begin = facts.find("\"target\""), end = facts.find('}', begin);
  atomic_write_file(writer.file("state.json"), facts.replace(begin, end + 1 - begin, target));
  writer.commit();
  fs::remove_all(whole);
}

// Another training of the same model was put in the target's place: every name, shape and size stays.
TEST(ResumedRun, ATargetThatChangedInPlaceIsRefused) {
  const TemporaryFolder place;
  const fs::path target = place.path() / "target";
  TinyRun run;
  fs::copy(run.config.target, target, fs::copy_options::recursive);
  run.config.target = target.string();
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
  fs::copy(run.config.target, target, fs::copy_options::recursive);
  run.config.target = target.string();
  train_two_steps(run);
  const std::int64_t one = identify_target(target, 1).checksum;
  replace_facts(run.folder().checkpoint(2), fmt::format("\"target\": {{\"checksum\": {}}}", one));
  change_in_place(target, "model.embed_tokens.weight", 5000);
  EXPECT_EQ(run.train(ExistingFolder::resume).report->first_step, 3);  // beyond what it can see
  replace_facts(run.folder().checkpoint(6), fmt::format("\"target\": {{\"checksum\": {}}}", one));
  change_in_place(target, "model.embed_tokens.weight", 0);
  expect_error([&] { run.train(ExistingFolder::resume); }, {"has changed"});
}

TEST(ResumedRun, ACheckpointThatDoesNotSayItsTargetKeepsItToItsPlace) {
  const TemporaryFolder place;
  TinyRun run;
  run.config.train.steps = 2;
  run.train();
  replace_facts(run.folder().checkpoint(2), "\"was\": {}");
  EXPECT_FALSE(run.train(ExistingFolder::resume).stopped());
  const fs::path target = place.path() / "target";
  fs::copy(run.config.target, target, fs::copy_options::recursive);
  run.config.target = target.string();
  expect_error([&] { run.train(ExistingFolder::resume); },
               {"and is " + target.string(), "older draftsmith", "--overwrite"});
}

}  // namespace
}  // namespace draftsmith
