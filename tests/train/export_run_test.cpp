#include "train/export_run.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "data/drafter_folder.h"
#include "data/file.h"
#include "support/expect_error.h"
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
  expect_error([&] { export_run({run.folder().path / "export"}, "best"); }, {"complete checkpoint"});
}

}  // namespace
}  // namespace draftsmith
