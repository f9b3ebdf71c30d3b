#include "train/export_run.h"

#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/drafter_folder.h"
#include "data/file.h"
#include "data/folder_lock.h"
#include "data/snapshot.h"
#include "model/drafter_export.h"
#include "support/expect_error.h"
#include "train/checkpoint.h"
#include "train/tiny_run.h"

namespace draftsmith {
namespace {

// Trained for 4 steps, a checkpoint each, evaluated twice.
void train_and_keep(TinyRun& run) {
  run.config.train.steps = 4;
  run.config.train.checkpoint = {.every = 1, .keep = 10};
  run.config.train.eval.every = 2;
  run.evaluation_documents = 4;
  run.train();
}

TEST(ExportRun, HoldsTheMastersOfTheChosenCheckpointRoundedToBf16) {
  TinyRun run;
  train_and_keep(run);
  const ExportedRun exported = export_run(run.folder(), "3");
  EXPECT_EQ(exported.checkpoint.step, 3);
  EXPECT_FALSE(exported.best);
  const auto state = run.state(3);
  const DrafterFolder written(exported.folder);
  std::int64_t compared = 0;
  for (const DrafterTensorShape& tensor : drafter_tensors(written.config())) {
    std::vector<float> values(static_cast<std::size_t>(written.tensor(tensor.name).elements()));
    read_as(written.tensor(tensor.name), std::span<float>(values));
    const std::vector<float>& master = state.at("master." + tensor.name);
    ASSERT_EQ(values.size(), master.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(values[i], float(bf16(master[i]))) << tensor.name;
    ++compared;
  }
  EXPECT_EQ(compared * 3,
            std::ssize(state));  // nothing trained is left out: moments are the other two thirds
  const std::string card = read_text_file(exported.folder / "README.md");
  const std::int64_t seen = read_checkpoint_facts(run.folder().checkpoint(3)).position.place;
  EXPECT_LT(seen, run.documents);
  EXPECT_NE(card.find("3 steps on " + std::to_string(seen) + " of 40 conversations\n"), std::string::npos)
      << card;
}

TEST(ExportRun, SaysWhichTargetItsDrafterWasTrainedOn) {
  TinyRun run;
  run.train();
  EXPECT_EQ(exported_target(export_run(run.folder(), "last").folder),
            identify_target(run.config.target, kTargetSamples));
  EXPECT_EQ(exported_target(run.folder().path), std::nullopt);
}

TEST(ExportRun, TheCardSaysHowOftenTheDataWasSeen) {
  TinyRun run;
  run.documents = 7;
  run.config.train.steps.reset();
  run.config.train.epochs = 2;
  run.train();
  const std::string card = read_text_file(export_run(run.folder(), "last").folder / "README.md");
  EXPECT_NE(card.find("on 7 conversations of "), std::string::npos) << card;
  EXPECT_NE(card.find("tokens, 2.0 times over"), std::string::npos) << card;
}

TEST(ExportRun, StatesTheShapeThatWasTrained) {
  TinyRun run;
  run.config.drafter.layer_types = {LayerKind::sliding, LayerKind::full};
  run.config.drafter.sliding_window = 6;
  run.config.drafter.is_causal = false;
  run.config.drafter.attention_bias = true;
  run.config.drafter.rope = {
      .theta = 5e5,
      .scaling = {.type = RopeScaling::yarn, .factor = 4, .original_max_position_embeddings = 64}};
  run.config.train.steps = 1;
  run.train();
  const DrafterConfigFile config = DrafterFolder(export_run(run.folder(), "last").folder).config();
  EXPECT_EQ(
      config.decoder.rope,
      (RopeConfig{
          .rope_type = "yarn", .rope_theta = 5e5, .factor = 4, .original_max_position_embeddings = 64}));
  EXPECT_EQ(config.decoder.rms_norm_eps, 1e-6);
  EXPECT_EQ(config.sliding_window, 6);
  EXPECT_FALSE(config.is_causal);
  EXPECT_TRUE(config.attention_bias);
  EXPECT_EQ(config.block_size, 4);
  EXPECT_EQ(config.mask_token_id, 95);
  EXPECT_EQ(config.target_layer_ids, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(config.layer_types[0], DrafterLayerType::sliding_attention);
}

TEST(ExportRun, BestIsByAcceptanceAndElseTheNewest) {
  TinyRun run;
  train_and_keep(run);
  EXPECT_EQ(export_run(run.folder(), "best").checkpoint.step, best_checkpoint(run.folder())->step);
  EXPECT_EQ(export_run(run.folder(), "last").checkpoint.step, 4);
  TinyRun unmeasured;
  unmeasured.config.train.steps = 2;
  unmeasured.train();
  EXPECT_EQ(export_run(unmeasured.folder(), "best").checkpoint.step, 2);
}

TEST(ExportRun, AnUnknownCheckpointNamesThoseThatThereAre) {
  TinyRun run;
  train_and_keep(run);
  expect_error([&] { export_run(run.folder(), "7"); }, {"--checkpoint 7", "1, 2, 3, 4"});
  expect_error([&] { export_run(run.folder(), "newest"); }, {"best, last or a step"});
}

TEST(ExportRun, WhatIsNoRunIsSaidToBeNone) {
  TinyRun run;
  run.config.train.steps = 1;
  run.train();
  const auto refused = [&](const std::filesystem::path& path, const std::string& found) {
    expect_error([&] { export_run({path}, "best"); },
                 {path.string() + ": expected a run's folder", "found " + found});
  };
  refused(run.folder().path / "nope", "nothing of this name");
  refused(run.folder().metrics(), "a file");
  refused(run.folder().checkpoint(1), "a folder of something else");
}

void damage(const std::filesystem::path& file) { std::filesystem::resize_file(file, 10); }

TEST(ExportRun, OfADamagedCheckpointTheWholeOnesAreNamed) {
  TinyRun run;
  train_and_keep(run);
  const std::filesystem::path state = run.folder().checkpoint(4) / "state.safetensors";
  std::string bytes = read_text_file(state);
  bytes.back() ^= 1;
  atomic_write_file(state, bytes);
  expect_error([&] { export_run(run.folder(), "last"); },
               {state.string(), "expected checksum", "whole with --checkpoint: 1, 2, 3"});
  // By its size alone, and no folder is passed over that a resumed run does not come by.
  damage(state);
  damage(run.folder().checkpoint(2) / kChecksumFile);
  testing::internal::CaptureStderr();
  EXPECT_EQ(newest_checkpoint(run.folder()).step, 3);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("step-00000004/state.safetensors"), said.npos) << said;
  EXPECT_EQ(said.find("step-00000002"), said.npos) << said;
}

// As a run's end finds it when the best checkpoint was damaged after it had been exported.
class ExportOfADamagedBest : public testing::Test {
 protected:
  ExportOfADamagedBest() {
    train_and_keep(run_);
    // Which of the two evaluated ones is better is chance: the worse is made to be.
    best_ = export_run(run_.folder(), "best").checkpoint.step;
    lesser_ = best_ == 2 ? 4 : 2;
    replace_acceptance(lesser_, *export_run(run_.folder(), "best").acceptance * 0.5);
    damage(run_.folder().checkpoint(best_) / "state.safetensors");
  }
  void replace_acceptance(std::int64_t step, double acceptance) {
    const std::filesystem::path path = run_.folder().checkpoint(step);
    CheckpointFacts facts = read_checkpoint_facts(path);
    facts.evaluation->acceptance = acceptance;
    const std::string config = read_checkpoint_config(path), choices = read_text_file(path / "choices.json");
    const DrafterShape shape = read_checkpoint_drafter(path);
    const WeightTable table = drafter_weight_table(shape);
    Carver count;
    carve_trained_state(count, table);
    std::vector<std::byte> memory(static_cast<std::size_t>(count.peak()));
    Carver carver(memory.data(), count.peak());
    const TrainedState state = carve_trained_state(carver, table);
    read_checkpoint_state(path, table, state);
    write_checkpoint(path,
                     {.facts = facts,
                      .config_text = config,
                      .choices_text = choices,
                      .drafter = shape,
                      .table = table,
                      .state = state},
                     [] {});
  }
  std::filesystem::path weights() const { return run_.folder().exported() / "model.safetensors"; }

  TinyRun run_;
  std::int64_t best_ = 0, lesser_ = 0;
};

TEST_F(ExportOfADamagedBest, KeepsTheBetterExport) {
  const std::string before = read_text_file(weights());
  const ExportedRun exported = export_run(run_.folder(), "best");
  EXPECT_EQ(exported.checkpoint.step, lesser_);
  ASSERT_TRUE(exported.kept.has_value());
  EXPECT_EQ(exported.kept->step, best_);
  EXPECT_GT(*exported.kept->acceptance, *exported.acceptance);
  EXPECT_TRUE(read_text_file(weights()) == before);
  // A step by its number is taken at its word, and what is in its place afterwards is of that step.
  EXPECT_FALSE(export_run(run_.folder(), std::to_string(lesser_)).kept.has_value());
  EXPECT_FALSE(read_text_file(weights()) == before);
  EXPECT_FALSE(export_run(run_.folder(), "best").kept.has_value());
}

TEST_F(ExportOfADamagedBest, ReplacesABetterExportThatIsDamagedTooOrDoesNotSayItsStep) {
  std::filesystem::resize_file(weights(), 10);
  EXPECT_FALSE(export_run(run_.folder(), "best").kept.has_value());
  DrafterFolder(run_.folder().exported());
  std::filesystem::remove(run_.folder().exported() / "origin.json");
  EXPECT_FALSE(export_run(run_.folder(), "best").kept.has_value());
}

// Which removing the list, as `draftsmith eval` advises of an export that was changed on purpose, once replaced.
TEST_F(ExportOfADamagedBest, KeepsABetterExportThatItsOwnerChanged) {
  atomic_write_file(run_.folder().exported() / "README.md", "changed");
  std::filesystem::remove(run_.folder().exported() / kChecksumFile);
  const std::string before = read_text_file(weights());
  EXPECT_TRUE(export_run(run_.folder(), "best").kept.has_value());
  EXPECT_TRUE(read_text_file(weights()) == before);
}

// What is said when the older export's origin.json cannot be used.
std::string warning_after(const std::function<void(const std::filesystem::path& exported)>& spoil) {
  TinyRun run;
  run.config.train.steps = 1;
  run.train();
  spoil(export_run(run.folder(), "best").folder);
  testing::internal::CaptureStderr();
  EXPECT_FALSE(export_run(run.folder(), "best").kept.has_value());
  return testing::internal::GetCapturedStderr();
}

TEST(ExportRun, AnOriginThatCannotBeUsedIsNamed) {
  namespace fs = std::filesystem;
  EXPECT_EQ(warning_after([](const fs::path&) {}), "");
  EXPECT_EQ(warning_after([](const fs::path& exported) { fs::remove_all(exported); }), "");
  for (const auto& [spoil, found] : std::vector<std::pair<void (*)(const fs::path&), const char*>>{
           {[](const fs::path& exported) { fs::resize_file(exported / "origin.json", 5); },
            " bytes, found 5; the export is damaged. The older export is replaced\n"},
           {[](const fs::path& exported) { fs::remove(exported / "origin.json"); },
            " bytes, found none; the export is damaged. The older export is replaced\n"},
           {[](const fs::path& exported) {
              atomic_write_file(exported / kChecksumFile, R"({"files": []})");
              atomic_write_file(exported / "origin.json", R"({"acceptance": 2})");
            },
            "step"}}) {
    EXPECT_THAT(warning_after(spoil),
                testing::AllOf(testing::HasSubstr("export/origin.json: "), testing::HasSubstr(found)));
  }
}

// An export beside a run has not its lock, so another keeps what is read and what is written from being removed.
TEST(ExportRun, NothingIsRemovedUnderAnExport) {
  TinyRun run;
  train_and_keep(run);
  const RunFolder folder = run.folder();
  const std::filesystem::path written = folder.path / (std::string(kTemporaryPrefix) + "export");
  std::filesystem::create_directory(written);
  auto exporting = FolderLock::wait(folder.checkpoints());
  prune_checkpoints(folder, 1);
  run.train(ExistingFolder::resume);
  EXPECT_EQ(list_checkpoints(folder).size(), 4u);
  EXPECT_TRUE(std::filesystem::exists(written));
  auto second = std::async(std::launch::async, [&] { return export_run(folder, "1"); });
  EXPECT_EQ(second.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  exporting.reset();
  EXPECT_EQ(second.get().checkpoint.step, 1);
  prune_checkpoints(folder, 1);
  EXPECT_LE(list_checkpoints(folder).size(), 2u);  // the newest, and the best
  run.train(ExistingFolder::resume);
  EXPECT_FALSE(std::filesystem::exists(written));
}

// So that what is removed of one without its list is what was written.
TEST(ExportRun, WritesTheFilesThatAnExportIsSaidToHave) {
  TinyRun run;
  run.train();
  std::vector<std::string> names;
  for (const auto& item : std::filesystem::directory_iterator(export_run(run.folder(), "last").folder))
    names.push_back(item.path().filename().string());
  EXPECT_THAT(names,
              testing::UnorderedElementsAreArray(std::begin(kExportedFiles), std::end(kExportedFiles)));
}

TEST(ExportRun, ARunThatBeginsAnewWaitsForTheExportOfTheOlderOne) {
  TinyRun run;
  train_and_keep(run);
  const RunFolder folder = run.folder();
  const std::size_t older = list_checkpoints(folder).size();
  auto exporting = FolderLock::wait(folder.checkpoints());
  auto anew = std::async(std::launch::async, [&] { run.train(ExistingFolder::overwrite); });
  EXPECT_EQ(anew.wait_for(std::chrono::milliseconds(500)), std::future_status::timeout);
  EXPECT_EQ(list_checkpoints(folder).size(), older);
  exporting.reset();
  anew.get();
}

// Pruning that was put off for an export had no next checkpoint to happen at: a run with keep 1 left 13.
TEST(ExportRun, ARunDuringWhichOneReadPrunesAtItsEnd) {
  TinyRun run;
  run.config.train.steps = 4;
  run.config.train.checkpoint = {.every = 1, .keep = 1};
  std::promise<std::unique_ptr<FolderLock>> begun;
  run.hooks.at = [&](PipelinePoint point, std::int64_t step, Slot*) {
    if (point == PipelinePoint::checkpoint && step == 1)
      begun.set_value(FolderLock::wait(run.folder().checkpoints()));
  };
  auto kept_meanwhile = std::async(std::launch::async, [&] {
    const auto exporting = begun.get_future().get();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!is_complete_snapshot(run.folder().checkpoint(4)) && std::chrono::steady_clock::now() < deadline)
      std::this_thread::yield();
    return list_checkpoints(run.folder()).size();
  });
  run.train();
  EXPECT_EQ(kept_meanwhile.get(), 4u);
  EXPECT_EQ(list_checkpoints(run.folder()).size(), 1u);
}

TEST(ExportRun, FilesOfOthersInTheFolderStay) {
  TinyRun run;
  run.config.train.steps = 1;
  run.train();
  export_run(run.folder(), "last");
  const std::filesystem::path mine = run.folder().exported() / "drafter.gguf";
  atomic_write_file(mine, "converted");
  export_run(run.folder(), "last");
  EXPECT_EQ(read_text_file(mine), "converted");
  run.train(ExistingFolder::overwrite);
  EXPECT_EQ(read_text_file(mine), "converted");
  EXPECT_FALSE(std::filesystem::exists(run.folder().exported() / "model.safetensors"));
  export_run(run.folder(), "last");
  EXPECT_EQ(read_text_file(mine), "converted");
  DrafterFolder(run.folder().exported());
}

}  // namespace
}  // namespace draftsmith
