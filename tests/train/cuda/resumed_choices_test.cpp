// On a GPU products are chosen by measuring, which may end otherwise every time: a resumed run must not depend
// on it. Skipped where there is no GPU.
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "train/half_run.h"

namespace draftsmith {
namespace {

namespace fs = std::filesystem;

class ResumedChoicesOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (list_gpus().gpus.empty()) GTEST_SKIP() << list_gpus().none;
    ::setenv("XDG_CACHE_HOME", cache_.path().c_str(), 1);
  }
  static void use_gpu(TinyRun& run) {
    run.config.train.compute = DType::bf16;
    run.config.devices.targets = run.config.devices.drafters = {"cuda:0"};
  }
  bool has_measured() const { return fs::exists(cache_.path() / "draftsmith"); }
  void forget_measurements() const { fs::remove_all(cache_.path() / "draftsmith"); }

  TemporaryFolder cache_;
};

TEST_F(ResumedChoicesOnGpu, AreTakenWithoutTheCacheAndWithoutMeasuring) {
  TinyRun straight;
  use_gpu(straight);
  straight.train();
  EXPECT_TRUE(has_measured());
  HalfRun parted;
  use_gpu(parted);
  parted.train_half();
  forget_measurements();
  parted.train(ExistingFolder::resume);
  EXPECT_FALSE(has_measured());
  EXPECT_EQ(straight.state(6), parted.state(6));
  expect_same_steps(straight.steps(), parted.steps());
}

TEST_F(ResumedChoicesOnGpu, OfAnotherCardDriverOrLibraryAreRefusedAndRetuned) {
  HalfRun run;
  use_gpu(run);
  run.train_half();
  const auto own = run.stored();
  ASSERT_EQ(own.size(), 1u);
  for (const std::size_t fact : {1, 2, 3}) {
    auto foreign = own;
    foreign[0].facts[fact].second = "another";
    run.store(foreign);
    expect_error([&] { run.train(ExistingFolder::resume); },
                 {"choices.json: on cuda:0", own[0].facts[fact].first + " was another and is ", "--retune"});
  }
  forget_measurements();
  run.retune = true;
  EXPECT_EQ(run.train(ExistingFolder::resume).step, 6);
  EXPECT_TRUE(has_measured());
}

// A choice that the library cannot follow any more, such as one that was damaged, is not replaced silently.
TEST_F(ResumedChoicesOnGpu, ThatCannotBeFollowedAreRefused) {
  HalfRun run;
  use_gpu(run);
  run.train_half();
  auto choices = run.stored();
  std::string lost;
  for (auto& [product, choice] : choices[0].products) {
    if (choice.size() < 128) continue;  // of our own kernels
    lost = product;
    choice = std::string(128, '0') + " 0";
  }
  ASSERT_FALSE(lost.empty());
  run.store(choices);
  expect_error([&] { run.train(ExistingFolder::resume); }, {"cannot be made by 000", "--retune"});
}

TEST_F(ResumedChoicesOnGpu, ThePlanMeasuresNothingAndCountsWhatTheArenaTakes) {
  TinyRun run;
  use_gpu(run);
  const auto allocated = [] { return seal_report().before[static_cast<int>(SetUp::arena)]; };
  const std::int64_t before = allocated();
  const RunPlan plan = run.plan();
  EXPECT_EQ(allocated(), before);
  EXPECT_FALSE(has_measured());
  EXPECT_EQ(plan.lack, "");
  EXPECT_FALSE(plan.devices[0].attention.empty());
  const TrainReport report = *run.train().report;
  EXPECT_EQ(plan.devices[0].bytes, report.devices[0].bytes);
  EXPECT_EQ(plan.devices[0].bytes_by_purpose, report.devices[0].bytes_by_purpose);
}

TEST_F(ResumedChoicesOnGpu, ARunThatDoesNotFitIsRefusedBeforeAnythingIsMeasured) {
  TinyRun run;
  use_gpu(run);
  run.config.devices.memory_gib = 1e-3;
  expect_error([&] { run.train(); }, {"cuda:0 needs", "1.0 MiB are available", "Not even"});
  EXPECT_FALSE(has_measured());
}

}  // namespace
}  // namespace draftsmith
