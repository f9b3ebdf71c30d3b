// A target on a device, the CPU if no other is named, loaded from a Hugging Face folder, run over rows that a test writes down.
#pragma once

#include <algorithm>
#include <filesystem>
#include <span>
#include <vector>

#include "device/device.h"
#include "device/memory.h"
#include "kernels/tables.h"
#include "model/target.h"
#include "model/target_shape.h"
#include "tensor/arena.h"
#include "tensor/staged.h"

namespace draftsmith {

// One row of a pass.
struct TargetRow {
  std::int32_t token, position;
  std::int32_t begin, end;  // rows of the store that it sees
};

// Documents one after another from row 0, each causal and alone.
inline std::vector<TargetRow> packed_rows(const std::vector<std::vector<std::int32_t>>& documents) {
  std::vector<TargetRow> rows;
  for (const auto& document : documents) {
    const auto begin = static_cast<std::int32_t>(rows.size());
    for (std::size_t i = 0; i < document.size(); ++i) {
      rows.push_back({.token = document[i],
                      .position = static_cast<std::int32_t>(i),
                      .begin = begin,
                      .end = begin + static_cast<std::int32_t>(i) + 1});
    }
  }
  return rows;
}

enum class TargetOutputs { features, logits, both };

template <typename T>
class TargetBench {
 public:
  struct Settings {
    std::vector<std::int64_t> taps;
    std::int64_t rows = 64;    // most rows of a pass, and of the store
    std::int64_t layers = -1;  // that get weights; -1: all
    Device device;
  };

  TargetBench(const std::filesystem::path& folder, Settings settings)
      : TargetBench(folder, read_target_shape(folder), std::move(settings)) {}
  TargetBench(const std::filesystem::path& folder, const TargetShape& shape, Settings settings)
      : settings_(std::move(settings)),
        device_(settings_.device),
        target_(shape, settings_.taps),
        launch_(device_, kernels_of<T>(device_)) {
    if (settings_.layers < 0) settings_.layers = shape.layers;
    attach_thread(device_);
    Carver counting, counting_shared;
    carve(counting);
    carve_shared(counting_shared);
    arena_ = Arena(device_, counting.peak());
    shared_ = Buffer::pinned(counting_shared.peak());
    Carver carver = arena_.carver(), shared_carver(shared_.data(), shared_.bytes());
    carve(carver);
    carve_shared(shared_carver);
    load_target_weights(launch_.stream(), folder, shape, weights);
    fill_rope(launch_.stream(), shape.rope, shape.head_dim, rope_);
  }

  // Writes features, logits and hidden, from their first row.
  void run(std::span<const TargetRow> rows, std::int64_t first_row, TargetOutputs outputs) {
    const auto count = static_cast<std::int64_t>(rows.size());
    for (std::int64_t i = 0; i < count; ++i) {
      tokens_[i] = rows[i].token;
      positions_[i] = rows[i].position;
      begin_[i] = rows[i].begin;
      end_[i] = rows[i].end;
    }
    TargetPass<T> pass{.tokens = tokens_.slice(0, count),
                       .positions = positions_.slice(0, count),
                       .intervals = {.begin = begin_.slice(0, count), .end = end_.slice(0, count)},
                       .first_row = first_row,
                       .store = &store};
    if (outputs != TargetOutputs::logits) pass.features = features.slice_rows(0, count);
    if (outputs != TargetOutputs::features) {
      pass.logits = logits.slice_rows(0, count);
      pass.final_hidden = hidden.slice_rows(0, count);
    }
    launch_.set_mode(LaunchMode::measure);
    forward(pass);
    launch_.set_mode(LaunchMode::run);
    if (launch_.library().scratch_bytes() > product_scratch_.bytes()) {
      product_scratch_ = Buffer::on_device(device_, launch_.library().scratch_bytes());
      launch_.library().set_scratch({product_scratch_.data(), product_scratch_.bytes()});
    }
    forward(pass);
    synchronize(launch_.stream());
  }

  // Weights where the host reads them.
  std::vector<T> on_host(Matrix<T> matrix) const {
    const Staged<T> staged(launch_.stream(), matrix);
    staged.download();
    return {staged.host().begin(), staged.host().end()};
  }

  const TargetShape& shape() const { return target_.shape(); }

  TargetWeights<T> weights;
  KeyValueStore<T> store;
  Matrix<T> features;    // [rows, taps * width]
  Matrix<T> hidden;      // [rows, width]
  Matrix<float> logits;  // [rows, vocabulary]

 private:
  void carve(Carver& carver) {
    const TargetShape& shape = target_.shape();
    const std::int64_t rows = settings_.rows;
    weights = carve_target_weights<T>(carver, shape, settings_.layers);
    rope_ = carve_rope(carver, rows, shape.head_dim);
    scratch_ = carve_target_scratch<T>(carver, shape, rows);
    store = {};
    for (std::int64_t layer = 0; layer < settings_.layers; ++layer) {
      store.keys.push_back(carver.matrix<T>(rows, shape.kv_width()));
      store.values.push_back(carver.matrix<T>(rows, shape.kv_width()));
    }
  }
  // What the host writes and reads beside the device.
  void carve_shared(Carver& carver) {
    const TargetShape& shape = target_.shape();
    const std::int64_t rows = settings_.rows;
    features = carver.matrix<T>(rows, static_cast<std::int64_t>(settings_.taps.size()) * shape.width);
    hidden = carver.matrix<T>(rows, shape.width);
    logits = carver.matrix<float>(rows, shape.vocabulary);
    for (Vector<std::int32_t>* input : {&tokens_, &positions_, &begin_, &end_}) {
      *input = carver.vector<std::int32_t>(rows);
    }
  }
  void forward(const TargetPass<T>& pass) {
    target_.forward(launch_, weights, rope_.table(), scratch_, pass);
  }

  Settings settings_;
  const Device device_;
  const Target<T> target_;
  Launcher<T> launch_;
  Arena arena_;
  Buffer shared_, product_scratch_;
  RopeStorage rope_;
  TargetScratch<T> scratch_;
  Vector<std::int32_t> tokens_, positions_, begin_, end_;
};

}  // namespace draftsmith
