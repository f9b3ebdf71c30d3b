// What was chosen for products stays chosen: among the devices of a run, and in a later part of it.
#include "kernels/product_choices.h"

#include <gtest/gtest.h>

#include "kernels/library.h"
#include "kernels/tables.h"
#include "support/devices.h"
#include "support/expect_error.h"

namespace draftsmith::test {
namespace {

const DeviceFacts kCardA = {{"device", "GPU"}, {"card", "Card A"}, {"library", "1"}};
const DeviceFacts kCardB = {{"device", "GPU"}, {"card", "Card B"}, {"library", "2"}};
const DeviceFacts kCpu = {{"device", "CPU"}, {"threads", "1"}};

constexpr MatmulShape kShape{
    .rows = 40, .columns = 8, .depth = 16, .left_stride = 16, .right_stride = 16, .output_stride = 8};

// A backend with algorithms "fast" and "kept": the former is what it chooses, "gone" is one that it had once.
std::unique_ptr<PreparedMatmul> prepare_fake(const Device&, const MatmulShape& shape,
                                             const std::string& choice) {
  auto prepared = std::make_unique<PreparedMatmul>();
  prepared->shape = shape;
  prepared->choice = choice.empty() || choice == "gone" ? "fast" : choice;
  return prepared;
}

MatmulLibrary library_with(const Device& device, DeviceChoices choices, std::string place) {
  MatmulLibrary library(device, prepare_fake);
  library.use(std::move(choices), std::move(place));
  return library;
}

TEST(ProductChoices, DevicesOfOneKindShareThem) {
  const Device device = cpu_device();
  ProductChoices choices;
  MatmulLibrary first = library_with(device, choices.of(kCardA, "cuda:0"), choices.place());
  EXPECT_EQ(first.find(kShape).choice, "fast");
  choices.add(first.choices());
  choices.add({.facts = kCardA, .products = {{kShape.key(), "of another device"}, {"more", "kept"}}});
  EXPECT_EQ(choices.of(kCardA, "cuda:1").products,
            (std::map<std::string, std::string>{{kShape.key(), "fast"}, {"more", "kept"}}));
  EXPECT_TRUE(choices.of(kCardB, "cuda:2").products.empty());
}

TEST(ProductChoices, StoredOnesAreFollowed) {
  const Device device = cpu_device();
  const ProductChoices stored({{.facts = kCardA, .products = {{kShape.key(), "kept"}}}}, "run/choices.json");
  MatmulLibrary library = library_with(device, stored.of(kCardA, "cuda:0"), stored.place());
  EXPECT_EQ(library.find(kShape).choice, "kept");
}

TEST(ProductChoices, AnotherDeviceIsRefusedByWhatDiffersFromTheNearest) {
  const ProductChoices stored({{.facts = kCpu}, {.facts = kCardA}}, "run/choices.json");
  expect_error([&] { stored.of(kCardB, "cuda:0"); },
               {"run/choices.json: on cuda:0", "card was Card A and is Card B", "library was 1 and is 2",
                "--retune", "bits will then differ"});
  expect_error(
      [&] {
        stored.of({{"device", "CPU"}, {"threads", "2"}}, "cpu:0");
      },
      {"threads was 1 and is 2"});
}

TEST(ProductChoices, AProductThatTheyLackOrThatIsMadeOtherwiseIsRefused) {
  const Device device = cpu_device();
  const ProductChoices stored({{.facts = kCpu, .products = {{kShape.key(), "gone"}}}}, "run/choices.json");
  MatmulLibrary library = library_with(device, stored.of(kCpu, "cpu:0"), stored.place());
  expect_error([&] { library.find(kShape); },
               {"run/choices.json: on cpu:0", kShape.key(), "by gone any more, only by fast", "--retune"});
  MatmulShape other = kShape;
  other.right_stride = 24;
  expect_error([&] { library.find(other); },
               {"nothing is stored for the product nt 40x8x16", "strides 16 24 8", "--retune"});
}

TEST(ProductChoices, NoneAtAllAreRefused) {
  expect_error([] { ProductChoices({}, "run/choices.json"); }, {"run/choices.json", "found none"});
}

// The real backends: what they chose once they choose again, and say what it depends on.
TEST(ProductChoices, AProductIsPreparedAgainAsItWas) {
  const Device device = test_device();
  const auto& kernels = kernels_of<float>(device);
  const auto once = kernels.prepare_matmul(device, kShape, "");
  EXPECT_FALSE(once->choice.empty());
  EXPECT_EQ(kernels.prepare_matmul(device, kShape, once->choice)->choice, once->choice);
  EXPECT_EQ(kernels.product_facts(device), kernels.product_facts(device));
  EXPECT_GE(kernels.product_facts(device).size(), 4u);
}

TEST(ProductChoices, TheThreadsOfACpuDeviceAreAmongItsFacts) {
  const auto facts = kernels_of<float>(cpu_device(3)).product_facts(cpu_device(3));
  EXPECT_NE(std::find(facts.begin(), facts.end(), std::pair<std::string, std::string>{"threads", "3"}),
            facts.end());
}

}  // namespace
}  // namespace draftsmith::test
