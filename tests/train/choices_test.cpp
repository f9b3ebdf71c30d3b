// A resumed run makes its products as before, or says why it cannot.
#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "train/choices_file.h"
#include "train/half_run.h"

namespace draftsmith {
namespace {

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
  run.train_half();
  const auto stored = run.stored();
  ASSERT_EQ(stored.size(), 1u);  // cpu:0 and cpu:1 are of one kind
  EXPECT_GT(stored[0].products.size(), 10u);
  EXPECT_EQ(read_text_file(run.folder().choices()), read_text_file(run.file()));
  EXPECT_EQ(run.train(ExistingFolder::resume).step, 6);
  EXPECT_EQ(read_text_file(run.folder().checkpoint(6) / "choices.json"), choices_text(stored));
}

TEST(ResumedChoices, AnotherThreadCountIsRefusedAndRetuned) {
  HalfRun run;
  run.train_half();
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
  run.train_half();
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
