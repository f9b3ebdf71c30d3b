// Which implementation of attention a launch takes, and what is said when one that is asked for does not serve
// it. Decided on the host alone.
#include <gtest/gtest.h>

#include "kernels/kernels.h"
#include "support/expect_error.h"

namespace draftsmith {
namespace {

Device card(int compute, AttentionChoice wanted) {
  Device device;
  device.name = {DeviceKind::cuda, 0};
  device.traits.compute = compute;
  device.attention = wanted;
  return device;
}

// 32 rows of 4/2 heads in blocks of 16 with rows on 16 bytes; nothing is read.
template <typename T>
std::string path(const Device& device, std::int64_t head_dim) {
  static T memory[1];
  const auto rows = [&](std::int64_t heads) {
    return Matrix<T>{.data = memory, .rows = 32, .columns = heads * head_dim, .stride = heads * head_dim};
  };
  AttentionForward<T> arguments;
  arguments.shape = {.query_heads = 4, .kv_heads = 2, .head_dim = head_dim, .block_size = 16};
  arguments.query = rows(4);
  arguments.output = rows(4);
  arguments.context_key = arguments.context_value = rows(2);
  arguments.block_key = arguments.block_value = rows(2);
  const std::string line = cuda_kernels<T>().attention_path(device, arguments);
  const std::string begin = "blocks of 16, 4/2 heads of " + std::to_string(head_dim) + ": ";
  EXPECT_TRUE(line.starts_with(begin)) << line;
  return line.substr(begin.size());
}

TEST(AttentionPath, TheFastestIsTakenUnlessAnotherIsAskedFor) {
  EXPECT_EQ(path<bf16>(card(90, AttentionChoice::automatic), 128), "hopper");
  EXPECT_EQ(path<bf16>(card(90, AttentionChoice::hopper), 128), "hopper");
  EXPECT_EQ(path<bf16>(card(90, AttentionChoice::portable), 128), "portable");
  EXPECT_EQ(path<bf16>(card(90, AttentionChoice::plain), 128), "plain");
  EXPECT_EQ(path<bf16>(card(90, AttentionChoice::automatic), 96), "portable");
  EXPECT_EQ(path<bf16>(card(80, AttentionChoice::automatic), 128), "portable");
  EXPECT_EQ(path<bf16>(card(90, AttentionChoice::automatic), 40), "plain");
  EXPECT_EQ(path<float>(card(90, AttentionChoice::automatic), 128), "plain");
}

TEST(AttentionPath, OneThatDoesNotServeIsRefused) {
  expect_error([] { path<bf16>(card(80, AttentionChoice::hopper), 128); },
               {"devices.attention: hopper does not serve blocks of 16, 4/2 heads of 128 on cuda:0",
                "the fastest is portable"});
  expect_error([] { path<bf16>(card(90, AttentionChoice::hopper), 96); }, {"the fastest is portable"});
  expect_error([] { path<bf16>(card(90, AttentionChoice::portable), 40); }, {"the fastest is plain"});
  expect_error([] { path<float>(card(90, AttentionChoice::portable), 128); }, {"the fastest is plain"});
}

}  // namespace
}  // namespace draftsmith
