#include "train/tiny_run.h"

#include <bit>
#include <cstring>
#include <fstream>

#include <gtest/gtest.h>

#include "base/random.h"
#include "data/safetensors.h"
#include "model/target_shape.h"
#include "train/resolve.h"

namespace draftsmith {
namespace {

constexpr std::int32_t kMaskToken = 95;  // of the tiny table's 96 rows

std::uint64_t bits(double value) { return std::bit_cast<std::uint64_t>(value); }

void expect_same_shares(const OffsetShares& a, const OffsetShares& b) {
  ASSERT_EQ(a.count, b.count);
  for (std::int64_t i = 0; i < a.count; ++i)
    EXPECT_EQ(bits(a.values[i]), bits(b.values[i])) << "offset " << i + 1;
}

template <typename Record>
std::vector<Record> records_of(const RunFolder& folder) {
  std::vector<Record> records;
  for (const LogEntry& entry : read_log(folder.metrics())) {
    if (const auto* record = std::get_if<Record>(&entry)) records.push_back(*record);
  }
  return records;
}

}  // namespace

Corpus made_up_corpus(std::int64_t documents, std::uint64_t seed) {
  Corpus corpus;
  for (std::int64_t i = 0; i < documents; ++i) {
    const Random random(seed, RandomStream::noise, static_cast<std::uint32_t>(i));
    const auto prompt = static_cast<std::int64_t>(3 + random.below(0, 6));
    const auto answer = static_cast<std::int64_t>(4 + random.below(1, 14));
    Corpus::Document document{.id = std::to_string(i)};
    for (std::int64_t p = 0; p < prompt + answer; ++p) {
      const bool answers = p >= prompt;
      document.ids.push_back(answers && p > prompt ? (document.ids.back() + 1) % 90
                                                   : static_cast<std::int32_t>(random.below(p + 2, 90)));
      document.loss_mask.push_back(answers ? 1 : 0);
    }
    corpus.append(std::move(document), 1 << 20);
  }
  return corpus;
}

TinyRun::TinyRun() {
  config.target = std::string(DRAFTSMITH_SOURCE_DIR) + "/tests/golden/spec_tiny/target";
  config.drafter = {.layers = 2, .block_size = 4, .taps = {1, 2}, .mask_token_id = kMaskToken};
  config.data.max_length = 32;
  config.train.steps = 6;
  config.train.context_tokens = 48;
  config.train.blocks = 10;
  config.train.anchors_per_document = 4;
  config.train.compute = DType::float32;
  config.train.optimizer.lr = 3e-3;
  config.train.checkpoint = {.every = 0, .keep = 3};
  config.train.eval = {.every = 0, .conversations = 8};
  config.devices = {.targets = {"cpu:0"}, .drafters = {"cpu:1"}, .queue = {.slots = 3}, .threads = 1};
  config.output = (temporary_.path() / "run").string();
}

RunInputs TinyRun::make_inputs() {
  fill_derived_defaults(config);
  const TargetShape target = read_target_shape(config.target);
  RunInputs inputs;
  inputs.shapes = resolve_shapes(config, target, resolve_drafter(config.drafter, target, kMaskToken));
  inputs.train = made_up_corpus(documents, 1);
  if (evaluation_documents > 0) inputs.evaluation = made_up_corpus(evaluation_documents, 2);
  return inputs;
}

RunPlan TinyRun::plan(const PlanDetail& detail) { return plan_run(config, make_inputs(), detail, hooks); }

TrainResult TinyRun::train(ExistingFolder existing) {
  const RunInputs inputs = make_inputs();
  if (existing != ExistingFolder::resume) trained_target_ = config.target;
  return draftsmith::train({.config = config,
                            .inputs = inputs,
                            .config_text = "tiny",
                            .existing = existing,
                            .retune = retune,
                            .check_resumed_config =
                                [&](const std::string&, const std::string&) {
                                  RunConfig saved = config;
                                  saved.target = trained_target_;
                                  return saved;
                                },
                            .progress =
                                [&](std::int64_t steps) {
                                  return ProgressSettings{.descriptor = said_.descriptor(),
                                                          .total_steps = steps,
                                                          .now_s = [] { return 0.0; },
                                                          .columns = {}};
                                },
                            .stop_signal = stop_signal,
                            .hooks = hooks});
}

std::map<std::string, std::vector<float>> TinyRun::state(std::int64_t step) const {
  const SafetensorsFile file(folder().checkpoint(step) / "state.safetensors");
  std::map<std::string, std::vector<float>> tensors;
  for (const std::string& name : file.names()) {
    std::vector<float>& values = tensors[name];
    values.resize(static_cast<std::size_t>(file.at(name).elements()));
    read_as(file.at(name), std::span<float>(values));
  }
  return tensors;
}

std::vector<StepRecord> TinyRun::steps() const { return records_of<StepRecord>(folder()); }
std::vector<EvaluationRecord> TinyRun::evaluations() const { return records_of<EvaluationRecord>(folder()); }

void expect_same_steps(const std::vector<StepRecord>& a, const std::vector<StepRecord>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    SCOPED_TRACE("step " + std::to_string(a[i].step));
    EXPECT_EQ(a[i].step, b[i].step);
    EXPECT_EQ(a[i].epoch, b[i].epoch);
    EXPECT_EQ(bits(a[i].loss), bits(b[i].loss));
    EXPECT_EQ(bits(a[i].gradient_norm), bits(b[i].gradient_norm));
    EXPECT_EQ(bits(a[i].acceptance), bits(b[i].acceptance));
    EXPECT_EQ(bits(a[i].coverage), bits(b[i].coverage));
    EXPECT_EQ(bits(a[i].learning_rate), bits(b[i].learning_rate));
    EXPECT_EQ(a[i].tokens, b[i].tokens);
    EXPECT_EQ(a[i].blocks, b[i].blocks);
    expect_same_shares(a[i].accuracy_by_offset, b[i].accuracy_by_offset);
  }
}

void expect_same_evaluations(const std::vector<EvaluationRecord>& a, const std::vector<EvaluationRecord>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    SCOPED_TRACE("evaluation after step " + std::to_string(a[i].step));
    EXPECT_EQ(a[i].step, b[i].step);
    EXPECT_EQ(bits(a[i].loss), bits(b[i].loss));
    EXPECT_EQ(bits(a[i].acceptance), bits(b[i].acceptance));
    EXPECT_EQ(a[i].conversations, b[i].conversations);
    expect_same_shares(a[i].accuracy_by_offset, b[i].accuracy_by_offset);
  }
}

void expect_same_first_step_in_another_order(const TinyRun& one, const TinyRun& several,
                                             std::int64_t micro_batches) {
  const double rows = static_cast<double>(micro_batches) *
                      std::max<double>(one.config.train.context_tokens, one.config.train.blocks * 4);
  const StepRecord a = one.steps().at(0), b = several.steps().at(0);
  EXPECT_EQ(a.blocks, b.blocks);
  // All terms are positive: an order changes each partial sum by one rounding.
  EXPECT_LE(std::abs(a.loss - b.loss), rows * 2 * kUnitRoundoff<double> * a.loss);

  // A weight gradient is a sum of `rows` products per entry; two orders differ by at most 2 * rows roundings
  // of the sum of magnitudes, which for terms of mixed signs is about sqrt(rows) times their sum.
  const double bound = 2 * rows * std::sqrt(rows) * kUnitRoundoff<float>;
  const auto state_a = one.state(1), state_b = several.state(1);
  for (const auto& [name, values] : state_a) {
    if (!name.starts_with("first_moment.")) continue;
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      difference += std::pow(values[i] - state_b.at(name)[i], 2);
      norm += std::pow(values[i], 2);
    }
    EXPECT_GT(norm, 0) << name;
    EXPECT_LE(std::sqrt(difference), bound * std::sqrt(norm)) << name;
  }
}

}  // namespace draftsmith
