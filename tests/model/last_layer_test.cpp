// The end of the last layer runs on the rows of the loss: what has no row of the head reaches nothing.
#include "model/last_layer.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "device/memory.h"
#include "support/kernel_types.h"

namespace draftsmith::test {
namespace {

template <typename T>
class LastLayerTest : public testing::Test {};
TYPED_TEST_SUITE(LastLayerTest, StorageTypes, StorageName);

// Two blocks, of which slots 1 and 3, and 2 have rows of the head; one unused block; two chunks of four rows.
template <typename T>
class LastLayer {
 public:
  LastLayer() : launch_(device_, cpu_kernels<T>()), table_(drafter_weight_table(shape_)) {
    attach_thread(device_);
    Carver counting;
    carve(counting);
    memory_ = Buffer::on_device(device_, counting.peak());
    std::memset(memory_.data(), 0xff, static_cast<std::size_t>(memory_.bytes()));  // NaN in every type
    Carver carver(memory_.data(), memory_.bytes());
    carve(carver);
    launch_.set_mode(LaunchMode::measure);
    run();
    launch_.set_mode(LaunchMode::run);
    scratch_memory_ = Buffer::on_device(device_, launch_.library().scratch_bytes());
    launch_.library().set_scratch({scratch_memory_.data(), scratch_memory_.bytes()});
    fill();
  }

  void run() {
    const LastLayerTail<T> tail(shape_);
    const auto weights = view_weights<const T>(shape_, table_, weights_);
    tail.forward(launch_, weights, batch, saved, rows);
    tail.backward(launch_, {.weights = weights,
                            .batch = batch,
                            .saved = saved,
                            .rows = rows,
                            .scratch = scratch_,
                            .row_gradients = row_gradients,
                            .gradients = gradients,
                            .weight_gradients = view_weights<float>(shape_, table_, weight_gradients),
                            .write = GradientWrite::overwrite});
  }

  std::vector<float> all_gradients() const {
    std::vector<float> all(weight_gradients.begin(), weight_gradients.end());
    for (const Matrix<T>& matrix : {gradients.attention, gradients.residual}) {
      for (std::int64_t r = 0; r < matrix.rows; ++r)
        all.insert(all.end(), matrix.row(r), matrix.row(r) + matrix.columns);
    }
    return all;
  }

  MicroBatch batch;
  LayerSaved<T> saved;
  LastRows<T> rows;
  TailInput<T> row_gradients, gradients;
  Vector<float> weight_gradients;

 private:
  static constexpr std::int64_t kDraftRows = 12, kLossRows = 8;

  void carve(Carver& carver) {
    batch.loss_index = carver.vector<std::int32_t>(kLossRows);
    batch.draft_loss_rows = carver.vector<std::int32_t>(kDraftRows);
    weights_ = carver.vector<T>(table_.size);
    weight_gradients = carver.vector<float>(table_.size);
    saved = carve_layer_saved<T>(carver, shape_, kDraftRows, kLossRows);
    rows = carve_last_rows<T>(carver, shape_, kLossRows);
    scratch_ = carve_tail_scratch<T>(carver, shape_, kDraftRows);
    const auto gradient_of = [&](std::int64_t count) -> TailInput<T> {
      return {.attention = carver.matrix<T>(count, shape_.query_width()),
              .residual = carver.matrix<T>(count, shape_.width)};
    };
    row_gradients = gradient_of(kLossRows);
    gradients = gradient_of(kDraftRows);
  }

  void fill() {
    const std::vector<std::int32_t> index{1, 3, 6, -1, -1, -1, -1, -1};
    std::copy(index.begin(), index.end(), batch.loss_index.begin());
    std::fill(batch.draft_loss_rows.begin(), batch.draft_loss_rows.end(), -1);
    for (std::int32_t row = 0; row < 3; ++row) batch.draft_loss_rows[index[row]] = row;
    std::vector<float> masters(static_cast<std::size_t>(table_.size));
    initialise_weights(table_, 4, {masters.data(), table_.size});
    for (std::size_t i = 0; i < masters.size(); ++i)
      weights_[static_cast<std::int64_t>(i)] = T(masters[i] + 0.1f);
    std::fill(weight_gradients.begin(), weight_gradients.end(), 0.0f);
    const Random random(5, RandomStream::noise);
    std::uint64_t at = 0;
    for (const Matrix<T>& matrix : {saved.attention, saved.input, row_gradients.residual}) {
      for (std::int64_t i = 0; i < matrix.rows * matrix.columns; ++i)
        matrix.data[i] = T(static_cast<float>(random.normal(at++)));
    }
    for (std::int64_t row = 3; row < kLossRows; ++row)  // as the loss leaves unused rows
      std::fill_n(row_gradients.residual.row(row), shape_.width, T(0.0f));
  }

  const DrafterShape shape_{.layers = 1,
                            .width = 24,
                            .intermediate = 40,
                            .query_heads = 4,
                            .kv_heads = 2,
                            .head_dim = 8,
                            .vocabulary = 53,
                            .max_positions = 64,
                            .target_layers = 6,
                            .block_size = 4,
                            .taps = {1},
                            .mask_token_id = 52,
                            .attention_bias = true,
                            .layer_kinds = {LayerKind::full}};
  const Device device_;
  Launcher<T> launch_;
  const WeightTable table_;
  Buffer memory_, scratch_memory_;
  Vector<T> weights_;
  TailScratch<T> scratch_;
};

TYPED_TEST(LastLayerTest, SlotsWithoutARowOfTheHeadReachNeitherOutputNorGradients) {
  LastLayer<TypeParam> clean, spoilt;
  for (std::int64_t slot = 0; slot < spoilt.batch.draft_loss_rows.size; ++slot) {
    if (spoilt.batch.draft_loss_rows[slot] >= 0) continue;
    for (const auto& matrix : {spoilt.saved.attention, spoilt.saved.input}) {
      std::fill_n(matrix.row(slot), matrix.columns, TypeParam(std::numeric_limits<float>::quiet_NaN()));
    }
  }
  clean.run();
  spoilt.run();
  for (std::int64_t row = 0; row < spoilt.rows.output.rows; ++row) {
    for (std::int64_t c = 0; c < spoilt.rows.output.columns; ++c) {
      const auto value = static_cast<float>(spoilt.rows.output(row, c));
      ASSERT_EQ(value, static_cast<float>(clean.rows.output(row, c))) << "and no NaN, in unused rows either";
    }
  }
  EXPECT_EQ(spoilt.all_gradients(), clean.all_gradients());
  for (std::int64_t slot = 0; slot < spoilt.batch.draft_loss_rows.size; ++slot) {
    if (spoilt.batch.draft_loss_rows[slot] >= 0) continue;
    for (const auto& matrix : {spoilt.gradients.attention, spoilt.gradients.residual}) {
      for (std::int64_t c = 0; c < matrix.columns; ++c) ASSERT_EQ(static_cast<float>(matrix(slot, c)), 0.0f);
    }
  }
}

}  // namespace
}  // namespace draftsmith::test
