#include "train/target_identity.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "data/file.h"
#include "data/safetensors_writer.h"
#include "support/temporary_folder.h"

namespace draftsmith {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kElements = 1 << 20;  // 4 MiB: its 16 samples are a 64th

// A target of one large and one small tensor.
class TargetIdentityTest : public testing::Test {
 protected:
  TargetIdentityTest() {
    atomic_write_file(folder() / "config.json", "{}");
    write();
  }
  fs::path folder() const { return place_.path(); }
  void write() const {
    SafetensorsWriter writer(folder() / "model.safetensors",
                             {{.name = "large", .type = FileType::f32, .shape = {kElements}},
                              {.name = "small", .type = FileType::f32, .shape = {16384}}});
    writer.write("large", std::span<const float>(large_));
    writer.write("small", std::span<const float>(small_));
    writer.finish();
  }
  bool sees_a_change_of(float& value, std::int64_t samples = kTargetSamples) {
    const TargetIdentity before = identify_target(folder(), samples);
    const float old = std::exchange(value, value + 1);
    write();
    const bool seen = identify_target(folder(), samples) != before;
    value = old;
    write();
    return seen;
  }

  TemporaryFolder place_;
  std::vector<float> large_ = std::vector<float>(kElements, 0.5f);
  std::vector<float> small_ = std::vector<float>(16384, 0.25f);
};

// Frozen at its beginning, as a training that leaves the first rows of a table alone.
TEST_F(TargetIdentityTest, ATrainingIsSeenThatKeepsTheFirstPageOfEachTensor) {
  const TargetIdentity before = identify_target(folder(), kTargetSamples);
  const TargetIdentity first_pages = identify_target(folder(), 1);
  for (std::size_t i = 1024; i < large_.size(); ++i) large_[i] += 1e-3f;
  write();
  EXPECT_NE(identify_target(folder(), kTargetSamples), before);
  EXPECT_EQ(identify_target(folder(), 1), first_pages);
}

// Two samples lie a fifteenth of the tensor apart.
TEST_F(TargetIdentityTest, AChangeOfAFifteenthOfATensorIsSeenWhereverItLies) {
  const TargetIdentity before = identify_target(folder(), kTargetSamples);
  constexpr std::int64_t kPart = kElements / 15;
  for (std::int64_t begin = 0; begin + kPart <= kElements; begin += kPart / 2) {
    const std::vector<float> old = large_;
    for (std::int64_t i = begin; i < begin + kPart; ++i) large_[static_cast<std::size_t>(i)] = 0;
    write();
    EXPECT_NE(identify_target(folder(), kTargetSamples), before) << begin;
    large_ = old;
  }
}

TEST_F(TargetIdentityTest, TheFirstAndTheLastValueAndEveryValueOfASmallTensorAreSeen) {
  EXPECT_TRUE(sees_a_change_of(large_.front()));
  EXPECT_TRUE(sees_a_change_of(large_.back()));
  for (const std::size_t at : {0, 1024, 5000, 16383}) EXPECT_TRUE(sees_a_change_of(small_[at])) << at;
  EXPECT_FALSE(sees_a_change_of(large_[2000]));  // as is said of it
}

TEST_F(TargetIdentityTest, ItIsOfWhatTheFolderHoldsAndNotOfItsPlace) {
  const TargetIdentity before = identify_target(folder(), kTargetSamples);
  const TemporaryFolder other;
  fs::copy(folder(), other.path() / "copy");
  EXPECT_EQ(identify_target(other.path() / "copy", kTargetSamples), before);
  atomic_write_file(other.path() / "copy/config.json", "{ }");
  EXPECT_NE(identify_target(other.path() / "copy", kTargetSamples), before);
}

}  // namespace
}  // namespace draftsmith
