// What is trained is what is served: a training block and a draft step with the same anchor are the same
// numbers. Both passes take the path of few rows, so the comparison is of bits.
#include <algorithm>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "model/drafter.h"
#include "support/spec_tiny.h"
#include "support/target_bench.h"

namespace draftsmith {
namespace {

constexpr std::int64_t kDocument = kFewRows;

// Logits of the block at `anchor`, from the training pass over the whole document: of the slots from 1 on that lie
// inside it.
class TrainingPass {
 public:
  TrainingPass(const DecoderModels& models, const std::vector<std::int32_t>& document)
      : models_(models),
        document_(document),
        target_(models.target_folder, {.taps = models.drafter.taps}),
        drafter_(models.drafter),
        launch_(device_, cpu_kernels<float>()) {
    attach_thread(device_);
    target_.run(packed_rows({document}), 0, TargetOutputs::features);
    Carver counting;
    carve(counting);
    arena_ = Arena(device_, counting.peak());
    Carver carver = arena_.carver();
    carve(carver);
    fill_rope(launch_.stream(), models.drafter.rope, models.drafter.head_dim, rope_);
  }

  std::vector<float> logits(std::int32_t anchor) {
    MicroBatchBuilder builder(budget(), models_.drafter);
    builder.begin(batch_);
    const std::vector<std::uint8_t> mask(document_.size(), 1);
    builder.add_document(document_, mask, {&anchor, 1});
    const std::int64_t rows = builder.finish().supervised;
    launch_.set_mode(LaunchMode::measure);
    forward();
    launch_.set_mode(LaunchMode::run);
    product_scratch_ = Buffer::on_device(device_, launch_.library().scratch_bytes());
    launch_.library().set_scratch({product_scratch_.data(), product_scratch_.bytes()});
    forward();
    return {logits_.data, logits_.data + rows * logits_.columns};
  }

 private:
  BatchBudget budget() const {
    const std::int64_t block_size = models_.drafter.block_size;
    return {.context_tokens = kDocument,
            .blocks = 1,
            .block_size = block_size,
            .loss_chunk_rows = block_size - 1};
  }
  void carve(Carver& carver) {
    batch_ = carve_micro_batch(carver, budget());
    rope_ = carve_rope(carver, 2 * kDocument, models_.drafter.head_dim);
    activations_ = carve_drafter_activations<float>(carver, models_.drafter, budget(), Recompute::none);
    logits_ = carver.matrix<float>(models_.drafter.block_size - 1, models_.drafter.vocabulary);
  }
  void forward() {
    const WeightTable table = drafter_weight_table(models_.drafter);
    const auto weights =
        view_weights(models_.drafter, table, Vector<const float>{models_.drafter_weights.data(), table.size});
    drafter_.context_forward(launch_, weights, rope_.table(), target_.features.slice_rows(0, kDocument),
                             batch_.positions, activations_.context);
    drafter_.blocks_forward(launch_, weights, rope_.table(), target_.weights.tables.embedding, batch_,
                            activations_);
    launch_(Matmul<float>{
        .left = activations_.last.output, .right = target_.weights.tables.head, .output = logits_});
  }

  const DecoderModels& models_;
  const std::vector<std::int32_t> document_;
  TargetBench<float> target_;
  const Device device_;
  const Drafter<float> drafter_;
  Launcher<float> launch_;
  Arena arena_;
  Buffer product_scratch_;
  MicroBatch batch_;
  RopeStorage rope_;
  DrafterActivations<float> activations_;
  Matrix<float> logits_;
};

struct Kind {
  const char* name;
  std::vector<LayerKind> layers;
  bool causal;
};

class TrainingStepTest : public testing::TestWithParam<Kind> {};

TEST_P(TrainingStepTest, OneBlockIsOneDraftStep) {
  const SpecTiny tiny;
  DecoderModels models = tiny.models();
  models.drafter.layer_kinds = GetParam().layers;
  models.drafter.sliding_window = 9;  // shorter than every context here, so it cuts
  models.drafter.causal_in_sliding_layers = GetParam().causal;
  std::vector<std::int32_t> document = tiny.rows("greedy_output", 1)[0];
  document.resize(kDocument);
  TrainingPass training(models, document);
  const auto decoder =
      make_decoder(Device{}, DType::float32, models, {.longest = kDocument, .prefill_rows = kFewRows});
  for (const std::int32_t anchor : {1, 8, 9, 21, 27}) {
    std::vector<std::int32_t> proposals(static_cast<std::size_t>(decoder->block_size()) - 1);
    decoder->prefill(std::span(document).first(static_cast<std::size_t>(anchor)));
    decoder->draft(document[anchor], proposals);
    const Matrix<const float> served = decoder->logits();
    const std::vector<float> trained = training.logits(anchor);
    const std::int64_t rows = std::min<std::int64_t>(served.rows, kDocument - 1 - anchor);
    ASSERT_EQ(static_cast<std::int64_t>(trained.size()), rows * served.columns);
    EXPECT_EQ(std::memcmp(trained.data(), served.data, trained.size() * sizeof(float)), 0) << anchor;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, TrainingStepTest,
    testing::Values(Kind{"full", {LayerKind::full, LayerKind::full}, true},
                    Kind{"sliding_causal", {LayerKind::sliding, LayerKind::full}, true},
                    Kind{"sliding_both_ways", {LayerKind::full, LayerKind::sliding}, false}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace draftsmith
