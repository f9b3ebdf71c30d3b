#include "tensor/staged.h"

#include <numeric>

#include <gtest/gtest.h>

#include "device/memory.h"

namespace draftsmith {
namespace {

TEST(Staged, IsTheViewItselfWhereTheHostAddressesIt) {
  const Device device{};
  const Buffer buffer = Buffer::on_device(device, 40 * sizeof(float));
  const Vector<float> view{reinterpret_cast<float*>(buffer.data()), 40};
  const Staged<float> staged({.device = &device}, view);
  EXPECT_EQ(staged.host().data, view.data);
  std::iota(staged.host().begin(), staged.host().end(), 0.0f);
  staged.upload();
  EXPECT_EQ(view[39], 39.0f);
  view[3] = -1;
  staged.download();
  EXPECT_EQ(staged.host()[3], -1.0f);
}

TEST(Staged, TakesMatricesWithoutGaps) {
  const Device device{};
  std::vector<float> values(12);
  const Staged<float> staged({.device = &device}, matrix_view(values.data(), 3, 4));
  EXPECT_EQ(staged.host().size, 12);
  EXPECT_DEATH(Staged<float>({.device = &device}, Matrix<float>{values.data(), 3, 3, 4}), "side by side");
}

}  // namespace
}  // namespace draftsmith
