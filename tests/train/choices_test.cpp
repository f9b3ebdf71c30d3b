// A resumed run makes its products as before, or says why it cannot.
#include <filesystem>

#include <gtest/gtest.h>

#include "data/file.h"
#include "data/snapshot.h"
#include "support/expect_error.h"
#include "train/choices_file.h"
#include "train/tiny_run.h"

namespace draftsmith {
namespace {

namespace fs = std::filesystem;

// A run of 6 steps of which 3 are made, and what its checkpoint says of products.
class HalfRun : public TinyRun {
 public:
  HalfRun() {
    hooks.at = [this](PipelinePoint point, std::int64_t index, Slot*) {
      if (point == PipelinePoint::exchange && index == 3) stop_signal = 15;
    };
    train();
    hooks = {};
    stop_signal = 0;
  }
  fs::path file() const { return folder().checkpoint(3) / "choices.json"; }
  std::vector<DeviceChoices> stored() const { return parse_choices(read_text_file(file()), file().string()); }
  // As a checkpoint that was written so.
  void store(const std::vector<DeviceChoices>& choices) const {
    const fs::path checkpoint = folder().checkpoint(3), whole = checkpoint.string() + "-whole";
    fs::rename(checkpoint, whole);
    SnapshotWriter writer(checkpoint);
    for (const auto& item : fs::directory_iterator(whole)) {
      if (item.path().filename() == kChecksumFile) continue;
      fs::copy(item.path(), writer.file(item.path().filename().string()));
    }
    atomic_write_file(writer.file("choices.json"), choices_text(choices));
    writer.commit();
    fs::remove_all(whole);
  }
};

TEST(ChoicesFile, IsReadBackExactly) {
  const std::vector<DeviceChoices> choices = {
      {.facts = {{"device", "GPU"}, {"card", "A \"card\""}}, .products = {{"nt", "00ff 12"}, {"tn", ""}}},
      {.facts = {{"device", "CPU"}}, .products = {}}};
  const auto read = parse_choices(choices_text(choices), "choices.json");
  ASSERT_EQ(read.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(read[i].facts, choices[i].facts);
    EXPECT_EQ(read[i].products, choices[i].products);
  }
}

TEST(ChoicesFile, AnythingElseIsRefused) {
  for (const char* text : {"[]", "{}", R"({"devices": [1]})", R"({"devices": [{"facts": {}}]})",
                           R"({"devices": [{"facts": {"card": 1}, "products": {}}]})",
                           R"({"devices": [{"facts": [], "products": {}}]})"}) {
    expect_error([&] { parse_choices(text, "choices.json"); }, {"choices.json"});
  }
}

TEST(ResumedChoices, AreThoseOfTheCheckpointAndInTheRunsFolder) {
  HalfRun run;
  const auto stored = run.stored();
  ASSERT_EQ(stored.size(), 1u);  // cpu:0 and cpu:1 are of one kind
  EXPECT_GT(stored[0].products.size(), 10u);
  EXPECT_EQ(read_text_file(run.folder().choices()), read_text_file(run.file()));
  EXPECT_EQ(run.train(ExistingFolder::resume).step, 6);
  EXPECT_EQ(read_text_file(run.folder().checkpoint(6) / "choices.json"), choices_text(stored));
}

TEST(ResumedChoices, AnotherThreadCountIsRefusedAndRetuned) {
  HalfRun run;
  run.config.devices.threads = 2;
  expect_error([&] { run.train(ExistingFolder::resume); },
               {run.file().string(), "threads was 1 and is 2", "--retune"});
  run.retune = true;
  EXPECT_EQ(run.train(ExistingFolder::resume).step, 6);
  run.retune = false;
  EXPECT_NE(read_text_file(run.folder().choices()).find(R"("threads": "2")"), std::string::npos);
}

TEST(ResumedChoices, AnotherLibraryCardOrLackingProductIsRefusedAndRetuned) {
  HalfRun run;
  const auto own = run.stored();
  const auto refused = [&](const std::vector<DeviceChoices>& choices,
                           std::initializer_list<std::string_view> parts) {
    run.store(choices);
    expect_error([&] { run.train(ExistingFolder::resume); }, parts);
  };
  auto other = own;
  other[0].facts[1].second = "1.0.0";
  refused(other, {"oneDNN was 1.0.0 and is", "--retune"});
  refused({{.facts = {{"device", "GPU"}, {"card", "Card A"}}}}, {"device was GPU and is CPU", "--retune"});
  other = own;
  const std::string lost = other[0].products.begin()->first;
  other[0].products.erase(lost);
  refused(other, {"nothing is stored for the product " + lost, "--retune"});
  other = own;
  other[0].products.begin()->second = "forgotten";
  refused(other, {"by forgotten any more, only by " + own[0].products.begin()->second, "--retune"});
  refused({}, {"found none", "--retune"});
  run.retune = true;
  EXPECT_EQ(run.train(ExistingFolder::resume).step, 6);
}

}  // namespace
}  // namespace draftsmith
