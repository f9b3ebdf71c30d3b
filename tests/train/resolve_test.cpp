#include "train/resolve.h"

#include <gtest/gtest.h>

#include "model/target_shape.h"
#include "support/expect_error.h"
#include "train/plan.h"
#include "train/tiny_run.h"

namespace draftsmith {
namespace {

TargetShape tiny_target() {
  return read_target_shape(std::string(DRAFTSMITH_SOURCE_DIR) + "/tests/golden/spec_tiny/target");
}

TEST(ResolveDrafter, WhatIsNotSetFollowsTheTarget) {
  TargetShape target = tiny_target();
  target.layers = 36;
  target.rope.theta = 12345;
  const DrafterShape shape = resolve_drafter({.layers = 5, .block_size = 16}, target, 95);
  EXPECT_EQ(shape.width, target.width);
  EXPECT_EQ(shape.intermediate, target.intermediate);
  EXPECT_EQ(shape.query_heads, target.query_heads);
  EXPECT_EQ(shape.kv_heads, target.kv_heads);
  EXPECT_EQ(shape.head_dim, target.head_dim);
  EXPECT_EQ(shape.vocabulary, target.vocabulary);
  EXPECT_EQ(shape.target_layers, 36);
  EXPECT_EQ(shape.taps, (std::vector<std::int64_t>{1, 9, 17, 25, 33}));
  EXPECT_EQ(shape.rope, target.rope);
  EXPECT_EQ(shape.layer_kinds, std::vector<LayerKind>(5, LayerKind::full));
}

TEST(ResolveDrafter, WhatIsSetWins) {
  const DrafterConfig config{.layers = 1,
                             .block_size = 4,
                             .taps = {0, 2},
                             .intermediate = 32,
                             .query_heads = 2,
                             .kv_heads = 1,
                             .head_dim = 8,
                             .rope = {.theta = 99},
                             .rms_norm_eps = 1e-5};
  const DrafterShape shape = resolve_drafter(config, tiny_target(), 7);
  EXPECT_EQ(shape.taps, config.taps);
  EXPECT_EQ(shape.intermediate, 32);
  EXPECT_EQ(shape.query_width(), 16);
  EXPECT_EQ(shape.kv_width(), 8);
  EXPECT_EQ(shape.rope, (RopeShape{.theta = 99}));
  EXPECT_EQ(shape.epsilon, 1e-5f);
  EXPECT_EQ(shape.mask_token_id, 7);
}

TEST(ResolveDrafter, TapsOfATinyTargetAreDistinctOrAskedFor) {
  EXPECT_EQ(resolve_drafter({.layers = 3}, tiny_target(), 95).taps, (std::vector<std::int64_t>{0, 1, 2}));
  expect_error([] { resolve_drafter({.layers = 4}, tiny_target(), 95); }, {"set drafter.taps to [0, 1, 2]"});
  EXPECT_EQ(resolve_drafter({.layers = 4, .taps = {0, 2}}, tiny_target(), 95).layers, 4);
}

TEST(ResolveShapes, DocumentsBeyondTheTargetsPositionsAreRefused) {
  TinyRun run;
  run.config.data.max_length = 257;
  expect_error([&] { run.train(); }, {"data.max_length is 257", "256 positions"});
}

TEST(AssignDevices, ANameInBothListsIsOneDeviceWithBothRoles) {
  const auto devices =
      assign_devices({.targets = {"cpu:0", "cpu:1"}, .drafters = {"cpu:1", "cpu:5"}, .threads = 1});
  ASSERT_EQ(devices.size(), 3u);
  EXPECT_EQ(devices[0].roles.target, 0);
  EXPECT_FALSE(devices[0].roles.drafter);
  EXPECT_EQ(devices[1].roles.target, 1);
  EXPECT_EQ(devices[1].roles.drafter, 0);
  EXPECT_EQ(devices[2].roles.drafter, 1);
  EXPECT_TRUE(devices[1].roles.makes(3));
  EXPECT_TRUE(devices[2].roles.trains_on(3));
  EXPECT_FALSE(devices[2].roles.makes(3));
}

TEST(Plan, CountsExactlyWhatTheRunAllocates) {
  TinyRun run;
  run.config.devices.drafters = {"cpu:0", "cpu:1"};
  const TrainReport report = *run.train().report;
  const RunPlan plan = run.plan({.products = true});
  ASSERT_EQ(plan.devices.size(), report.devices.size());
  for (std::size_t i = 0; i < plan.devices.size(); ++i) {
    EXPECT_EQ(plan.devices[i].bytes, report.devices[i].bytes);
    EXPECT_EQ(plan.devices[i].bytes_by_purpose, report.devices[i].bytes_by_purpose);
    EXPECT_FALSE(plan.devices[i].products.empty());
    std::int64_t sum = 0;
    for (const auto& [purpose, bytes] : plan.devices[i].bytes_by_purpose) sum += bytes;
    EXPECT_EQ(sum, plan.devices[i].bytes);
  }
  EXPECT_EQ(plan.host_bytes.at("slots"), report.slot_bytes);
}

TEST(Plan, AnImplementationOfAttentionThatADeviceLacksIsRefused) {
  TinyRun run;
  run.config.devices.attention = AttentionChoice::portable;
  expect_error([&] { run.train(); }, {"devices.attention: cpu:0 has one implementation", "auto"});
}

}  // namespace
}  // namespace draftsmith
