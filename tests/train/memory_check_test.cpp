// A run whose memory is not there is refused before any of it is allocated, with budgets that fit.
#include "train/memory_check.h"

#include <algorithm>
#include <filesystem>
#include <regex>

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "train/tiny_run.h"

namespace draftsmith {
namespace {

namespace fs = std::filesystem;

constexpr double kGib = 1 << 30;

std::int64_t most_bytes(const RunPlan& plan) {
  std::int64_t most = 0;
  for (const PlannedDevice& device : plan.devices) most = std::max(most, device.bytes);
  return most;
}

// Large enough that a budget is most of the memory.
void use_large_budgets(TinyRun& run) {
  run.config.train.context_tokens = 4096;
  run.config.train.blocks = 1024;
}

// The numbers behind every `name=` in a text, in order.
std::vector<std::int64_t> values_of(const std::string& name, const std::string& text) {
  std::vector<std::int64_t> values;
  const std::regex pattern(name + "=([0-9]+)");
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match) {
    values.push_back(std::stoll((*match)[1]));
  }
  return values;
}

TEST(MemoryCheck, ALimitIsHeldToTheByte) {
  TinyRun run;
  use_large_budgets(run);
  const std::int64_t bytes = most_bytes(run.plan());
  run.config.devices.memory_gib = static_cast<double>(bytes) / kGib;
  EXPECT_EQ(run.plan().lack, "");
  run.config.devices.memory_gib = static_cast<double>(bytes - 1) / kGib;
  EXPECT_NE(run.plan().lack, "");
}

// It was rounded to 0 bytes, which was no limit.
TEST(MemoryCheck, ALimitBelowAByteIsALimit) {
  TinyRun run;
  run.config.devices.memory_gib = 1e-30;
  EXPECT_NE(run.plan().lack, "");
}

TEST(MemoryCheck, TheBudgetsItNamesFitAndLargerOnesDoNot) {
  TinyRun run;
  use_large_budgets(run);
  run.config.devices.memory_gib = 0.6 * static_cast<double>(most_bytes(run.plan())) / kGib;
  const std::string lack = run.plan().lack;
  const auto tokens = values_of("context_tokens", lack), blocks = values_of("blocks", lack);
  ASSERT_GE(tokens.size(), 1u) << lack;
  ASSERT_EQ(blocks.size(), tokens.size()) << lack;
  const std::int64_t all_tokens = run.config.train.context_tokens, all_blocks = run.config.train.blocks;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    run.config.train.context_tokens = tokens[i];
    run.config.train.blocks = blocks[i];
    EXPECT_EQ(run.plan().lack, "") << lack;
    // The head goes in chunks, whose size makes small steps up and down.
    run.config.train.context_tokens = tokens[i] == all_tokens ? all_tokens : tokens[i] * 9 / 8;
    run.config.train.blocks = blocks[i] == all_blocks ? all_blocks : blocks[i] * 9 / 8;
    EXPECT_NE(run.plan().lack, "") << lack;
  }
}

TEST(MemoryCheck, ARunIsRefusedBeforeAnythingIsAllocatedOrWritten) {
  TinyRun run;
  use_large_budgets(run);
  run.config.devices.memory_gib = 1e-2;
  const auto allocated = [] { return seal_report().before[static_cast<int>(SetUp::arena)]; };
  const std::int64_t before = allocated();
  expect_error([&] { run.train(); },
               {"needs more memory than there is", "cpu:1 needs", "10.2 MiB are available",
                "largest budgets that would fit, about:\n  train.context_tokens="});
  EXPECT_EQ(allocated(), before);
  EXPECT_FALSE(fs::exists(run.folder().checkpoints()));
}

TEST(MemoryCheck, WhereNoBudgetFitsItSaysSo) {
  TinyRun run;
  run.config.devices.memory_gib = 1e-6;
  expect_error([&] { run.train(); },
               {"Not even the budgets of one document, train.context_tokens=32 train.blocks=4, would fit"});
}

TEST(MemoryCheck, LogicalCpuDevicesShareTheHost) {
  TinyRun run;
  run.config.devices.drafters = {"cpu:1", "cpu:2"};
  const RunPlan plan = run.plan();
  std::int64_t sum = 0;
  for (const PlannedDevice& device : plan.devices) sum += device.bytes;
  for (const auto& [purpose, bytes] : plan.host_bytes) sum += bytes;
  EXPECT_EQ(plan.host.bytes, sum);
  run.config.train.context_tokens = std::int64_t{1} << 20;
  run.config.devices.queue.slots = 4096;  // of half a GiB each
  EXPECT_NE(run.plan().lack.find("the host needs"), std::string::npos);
}

}  // namespace
}  // namespace draftsmith
