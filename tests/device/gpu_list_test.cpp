// What is said about a card that cannot be used, by answers that a driver might give.
#include "device/gpu_list.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace draftsmith {
namespace {

constexpr DeviceName kFirst{DeviceKind::cuda, 0}, kSecond{DeviceKind::cuda, 1};

DriverAnswer::Card card(const std::string& name, int compute) {
  return {.traits = {.card = name, .driver = 13000, .compute = compute}, .failure = ""};
}
DriverAnswer answer_with(std::vector<DriverAnswer::Card> cards) {
  return {.driver = 13000, .needed = 13000, .cards = std::move(cards)};
}

void expect_none(const DriverAnswer& answer, const std::string& why) {
  const GpuList list = judge_gpus(answer);
  EXPECT_TRUE(list.gpus.empty());
  EXPECT_EQ(list.none, why);
  expect_error([&] { usable_gpu(list, kFirst); }, {"device cuda:0 cannot be used: " + why});
}

TEST(GpuList, WithoutADriver) {
  expect_none({.driver = 0, .needed = 13000}, "there is no NVIDIA driver on this machine");
}

TEST(GpuList, WithADriverThatIsTooOld) {
  expect_none({.driver = 12080, .needed = 13000, .too_old = true},
              "the NVIDIA driver supports CUDA 12.8, but this draftsmith needs 13.0 or newer: update it");
}

TEST(GpuList, WithADriverThatFails) {
  expect_none({.driver = 13000, .needed = 13000, .failure = "system not yet initialized"},
              "the NVIDIA driver fails: system not yet initialized. See nvidia-smi");
}

TEST(GpuList, WithADriverThatFindsNoCard) {
  expect_none(answer_with({}),
              "the NVIDIA driver finds no GPU (is it hidden by CUDA_VISIBLE_DEVICES, or not given to this "
              "container?)");
}

TEST(GpuList, ACardOfAnOlderArchitectureSaysWhyAndTheOtherIsUsable) {
  const GpuList list = judge_gpus(answer_with({card("Old", 75), card("New", 90)}));
  ASSERT_EQ(list.gpus.size(), 2u);
  EXPECT_EQ(list.none, "");
  EXPECT_EQ(list.gpus[0].unusable,
            "its architecture is 7.5, but kernels are built for 8.0 (Ampere) and newer");
  expect_error([&] { usable_gpu(list, kFirst); }, {"device cuda:0 cannot be used: its architecture is 7.5"});
  EXPECT_EQ(usable_gpu(list, kSecond).traits.card, "New");
}

TEST(GpuList, ACardThatCannotBeReadSaysWhy) {
  DriverAnswer::Card unread;
  unread.failure = "the launch failed";
  const GpuList list = judge_gpus(answer_with({unread}));
  EXPECT_EQ(list.gpus.at(0).unusable, "its properties cannot be read: the launch failed");
}

TEST(GpuList, ACardThatIsNotThereNamesThoseThatAre) {
  const GpuList one = judge_gpus(answer_with({card("A", 90)}));
  expect_error([&] { usable_gpu(one, kSecond); },
               {"device cuda:1 cannot be used: this machine has 1 GPU, cuda:0"});
  const GpuList two = judge_gpus(answer_with({card("A", 90), card("B", 80)}));
  expect_error([&] { usable_gpu(two, {DeviceKind::cuda, 2}); }, {"2 GPUs, cuda:0 to cuda:1"});
}

}  // namespace
}  // namespace draftsmith
