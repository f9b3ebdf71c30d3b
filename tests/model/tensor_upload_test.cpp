// Values reach a device as one thread would have read them, however they are shared out.
#include "model/tensor_upload.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "support/devices.h"
#include "support/expect_error.h"
#include "tensor/staged.h"

namespace draftsmith {
namespace {

constexpr std::int64_t kCount =
    (std::int64_t{1} << 22) + 5;  // enough for several cores, and no multiple of anything

std::vector<float> values() {
  const Random random(3, RandomStream::sampling);
  std::vector<float> values(kCount);
  for (std::int64_t i = 0; i < kCount; ++i) values[i] = static_cast<float>(random.normal(i));
  return values;
}

TensorEntry entry_of(const std::vector<float>& values) {
  return {.label = "a file: tensor 'x'",
          .type = FileType::f32,
          .shape = {kCount},
          .bytes = std::as_bytes(std::span(values))};
}

TEST(TensorUpload, GivesTheBitsOfOneThread) {
  const Device device = test::test_device();
  const Stream stream{.device = &device};
  const std::vector<float> stored = values();
  std::vector<bf16> expected(kCount), found(kCount);
  read_as(entry_of(stored), std::span<bf16>(expected));
  const Buffer there = Buffer::on_device(device, kCount * sizeof(bf16));
  const Vector<bf16> values{reinterpret_cast<bf16*>(there.data()), kCount};
  TensorUpload<bf16> upload(stream, 1'500'000);  // pieces
  upload(entry_of(stored), values);
  download<bf16>(stream, values, {found.data(), kCount});
  EXPECT_EQ(std::memcmp(expected.data(), found.data(), kCount * sizeof(bf16)), 0);
}

TEST(TensorUpload, TheFirstOfManyBadValuesIsNamed) {
  const Device device;
  std::vector<float> stored = values(), found(kCount);
  for (const std::int64_t place : {987'654, 654'321, 654'320, 1'000'000})
    stored[place] = std::numeric_limits<float>::infinity();
  stored[700'000] = std::numeric_limits<float>::quiet_NaN();
  TensorUpload<float> upload({&device}, 1'500'000);
  expect_error(
      [&] {
        upload(entry_of(stored), {found.data(), kCount});
      },
      {"tensor 'x'", "inf", "element 654320;", "finite"});
}

}  // namespace
}  // namespace draftsmith
