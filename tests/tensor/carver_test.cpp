#include "tensor/carver.h"

#include <gtest/gtest.h>

#include "tensor/arena.h"

namespace draftsmith {
namespace {

struct Views {
  Matrix<float> activations;
  Vector<bf16> weights;
  Vector<double> scratch, other_scratch;
};

Views carve(Carver& carver) {
  carver.purpose("activations");
  Views views{.activations = carver.matrix<float>(3, 5)};
  carver.purpose("weights");
  views.weights = carver.vector<bf16>(7);
  carver.purpose("scratch");
  const std::int64_t mark = carver.mark();
  views.scratch = carver.vector<double>(100);
  carver.give_back(mark);
  views.other_scratch = carver.vector<double>(50);
  return views;
}

TEST(Carver, MeasuresWhatItLaterCuts) {
  Carver measure;
  const Views nothing = carve(measure);
  EXPECT_EQ(nothing.activations.data, nullptr);
  EXPECT_EQ(nothing.activations.rows, 3);

  const Arena arena(Device{}, measure.peak());
  Carver carver = arena.carver();
  const Views views = carve(carver);
  EXPECT_EQ(carver.peak(), arena.bytes());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(views.weights.data) % Carver::kAlignment, 0u);
  EXPECT_EQ(views.scratch.data, views.other_scratch.data) << "what was given back is used again";
  EXPECT_GE(reinterpret_cast<std::byte*>(views.weights.data),
            reinterpret_cast<std::byte*>(views.activations.data) + 60);
}

TEST(Carver, BytesByPurposeAddUpToThePeak) {
  Carver measure;
  carve(measure);
  std::int64_t sum = 0;
  for (const auto& [purpose, bytes] : measure.bytes_by_purpose()) sum += bytes;
  EXPECT_EQ(sum, measure.peak());
  EXPECT_EQ(measure.bytes_by_purpose().at("activations"), 64);
  EXPECT_EQ(measure.bytes_by_purpose().at("scratch"), 832);
}

TEST(CarverDeathTest, CuttingMoreThanWasMeasuredAborts) {
  const Arena arena(Device{}, 64);
  Carver carver = arena.carver();
  carver.vector<float>(16);
  EXPECT_DEATH(carver.vector<float>(1), "measured by the code that cuts it");
}

TEST(Matrix, SlicesShareMemoryAndKeepTheStride) {
  float data[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const Matrix<float> matrix = matrix_view(data, 3, 4);
  const Matrix<float> columns = matrix.slice_columns(1, 2);
  EXPECT_EQ(columns(2, 0), 9);
  EXPECT_EQ(matrix.slice_rows(1, 2)(0, 3), 7);
  EXPECT_EQ(columns.stride, 4);
}

}  // namespace
}  // namespace draftsmith
