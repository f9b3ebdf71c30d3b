#include "model/golden_case.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <nlohmann/json.hpp>

#include "data/safetensors.h"
#include "model/drafter_fixture.h"

namespace draftsmith {
namespace {

DrafterShape shape_of(const nlohmann::json& meta) {
  DrafterShape shape{.layers = meta["num_hidden_layers"],
                     .width = meta["hidden_size"],
                     .intermediate = meta["intermediate_size"],
                     .query_heads = meta["num_attention_heads"],
                     .kv_heads = meta["num_key_value_heads"],
                     .head_dim = meta["head_dim"],
                     .vocabulary = meta["vocab_size"],
                     .block_size = meta["block_size"],
                     .taps = meta["target_layer_ids"].get<std::vector<std::int64_t>>(),
                     .mask_token_id = meta["mask_token_id"],
                     .epsilon = meta["rms_norm_eps"],
                     .rope = {.theta = meta["rope_theta"]},
                     .attention_bias = meta["attention_bias"]};
  shape.target_layers = shape.taps.back() + 2;
  for (const std::string kind : meta["layer_types"]) {
    shape.layer_kinds.push_back(kind == "sliding_attention" ? LayerKind::sliding : LayerKind::full);
  }
  if (!meta["sliding_window"].is_null()) shape.sliding_window = meta["sliding_window"];
  if (meta.contains("is_causal") && !meta["is_causal"].is_null()) {
    shape.causal_in_sliding_layers = meta["is_causal"];
  }
  return shape;
}

// One document's anchors, ascending, and the place in the file of each.
struct Anchors {
  std::vector<std::int32_t> positions;
  std::vector<std::int64_t> places;
};

Anchors kept_anchors(const GoldenCase& golden, std::int64_t document) {
  const auto& all = golden.tensors.at("anchors");
  const auto& keep = golden.tensors.at("block_keep");
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < golden.blocks_per_document; ++i) {
    const std::int64_t place = document * golden.blocks_per_document + i;
    if (keep[place] != 0) places.push_back(place);
  }
  std::stable_sort(places.begin(), places.end(), [&](auto a, auto b) { return all[a] < all[b]; });
  Anchors anchors{.places = places};
  for (const auto place : places) anchors.positions.push_back(static_cast<std::int32_t>(all[place]));
  return anchors;
}

template <typename T>
void fill(const std::vector<double>& from, T* to) {
  std::transform(from.begin(), from.end(), to, [](double value) { return T(static_cast<float>(value)); });
}

std::vector<float> masters_of(const GoldenCase& golden, const WeightTable& table) {
  std::vector<float> masters(table.size, 0.0f);
  for (const WeightEntry& entry : table.entries) {
    const auto& values = golden.tensors.at("weight." + entry.name);
    fill(values, masters.data() + entry.offset);
  }
  return masters;
}

// Packs all documents of the case and returns the places of their blocks in the order of packing.
template <typename T>
BatchCounts pack(const GoldenCase& golden, DrafterFixture<T>& fixture, std::vector<std::int64_t>& places) {
  MicroBatchBuilder builder(fixture.budget, fixture.shape);
  builder.begin(fixture.batch);
  for (std::int64_t document = 0; document < golden.documents; ++document) {
    std::vector<std::int32_t> ids(golden.length);
    std::vector<std::uint8_t> mask(golden.length);
    for (std::int64_t i = 0; i < golden.length; ++i) {
      ids[i] = static_cast<std::int32_t>(golden.tensors.at("input_ids")[document * golden.length + i]);
      mask[i] = golden.tensors.at("loss_mask")[document * golden.length + i] > 0.5;
    }
    const Anchors anchors = kept_anchors(golden, document);
    builder.add_document(ids, mask, anchors.positions);
    places.insert(places.end(), anchors.places.begin(), anchors.places.end());
  }
  return builder.finish();
}

// One more document's worth of unused rows and one unused block prove that padding takes no part.
BatchBudget budget_of(const GoldenCase& golden) {
  return {.context_tokens = golden.documents * golden.length + 3,
          .blocks = golden.documents * golden.blocks_per_document + 1,
          .block_size = golden.shape.block_size,
          .loss_chunk_rows = 2 * golden.shape.block_size};
}

template <typename T>
void collect_hidden(const GoldenCase& golden, const DrafterFixture<T>& fixture,
                    const std::vector<std::int64_t>& places, GoldenResult& result) {
  const std::int64_t size = golden.shape.block_size, width = golden.shape.width;
  const auto& expected = golden.tensors.at("draft_hidden");
  for (std::int64_t row = 0; row < fixture.batch.loss_index.size; ++row) {
    const std::int64_t draft_row = fixture.batch.loss_index[row];
    if (draft_row < 0) continue;
    const std::int64_t slot = places[static_cast<std::size_t>(draft_row / size)] * size + draft_row % size;
    for (std::int64_t i = 0; i < width; ++i) {
      result.hidden.push_back(static_cast<float>(fixture.activations.last.output(row, i)));
      result.expected_hidden.push_back(expected[static_cast<std::size_t>(slot * width + i)]);
    }
  }
}

}  // namespace

std::vector<std::filesystem::path> golden_training_cases(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("train_") && name.ends_with(".safetensors")) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

GoldenCase load_golden_case(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  const auto meta = nlohmann::json::parse(file.metadata().at("case"));
  GoldenCase golden{.name = path.stem(),
                    .shape = shape_of(meta),
                    .documents = meta["batch"],
                    .length = meta["seq_len"],
                    .blocks_per_document = meta["num_anchors"]};
  golden.shape.max_positions = golden.length + golden.shape.block_size;
  golden.loss.kind = meta["loss_type"] == "dpace" ? LossKind::dpace : LossKind::dflash;
  golden.loss.gamma = meta["loss_decay_gamma"].is_null() ? 0.0f : meta["loss_decay_gamma"].get<float>();
  golden.loss.alpha = meta["dpace_alpha"];
  golden.loss.distill_share = meta.value("distill_weight", 0.0f);
  golden.loss.distill_temperature = meta.value("distill_temperature", 1.0f);
  for (const std::string& name : file.names()) {
    const TensorEntry& entry = file.at(name);
    std::vector<double>& values = golden.tensors[name];
    values.resize(entry.elements());
    if (entry.type == FileType::f64 || entry.type == FileType::f32) {
      read_as(entry, values);
    } else {
      std::vector<std::int64_t> integers(entry.elements());
      read_as(entry, integers);
      std::copy(integers.begin(), integers.end(), values.begin());
    }
  }
  return golden;
}

template <typename T>
GoldenResult run_golden_case(const GoldenCase& golden, const Kernels<T>& kernels, const Device& device) {
  DrafterFixture<T> fixture(golden.shape, budget_of(golden), {.loss = golden.loss, .device = device},
                            kernels);
  const std::vector<float> masters = masters_of(golden, fixture.table);
  fixture.set_weights({masters.data(), static_cast<std::int64_t>(masters.size())});
  fill(golden.tensors.at("embed_tokens"), fixture.embedding.data);
  fill(golden.tensors.at("lm_head"), fixture.head.data);
  std::fill_n(fixture.features.data, fixture.features.rows * fixture.features.stride,
              T(1.0f));  // unused rows
  fill(golden.tensors.at("target_features"), fixture.features.data);
  std::fill_n(fixture.teacher_hidden.data, fixture.teacher_hidden.rows * fixture.teacher_hidden.stride,
              T(1.0f));
  if (golden.loss.distilled()) fill(golden.tensors.at("target_last_hidden"), fixture.teacher_hidden.data);
  std::vector<std::int64_t> places;
  const BatchCounts counts = pack(golden, fixture, places);
  fixture.run(counts);

  const auto& sums = fixture.loss.sums;
  GoldenResult result{.runs = sums[LossSums::kRuns], .blocks = sums[LossSums::kBlocks]};
  const double denominator = golden.loss.kind == LossKind::dpace
                                 ? static_cast<double>(counts.documents_with_blocks)
                                 : sums[LossSums::kDenominator];
  result.loss = sums[LossSums::kNumerator] / denominator;
  double hits = 0, slots = 0;
  for (std::int64_t k = 1; k < golden.shape.block_size; ++k) {
    hits += sums[LossSums::hits(k)];
    slots += sums[LossSums::counts(k, golden.shape.block_size)];
  }
  result.accuracy = hits / slots;
  collect_hidden(golden, fixture, places, result);
  for (const WeightEntry& entry : fixture.table.entries) {
    const Vector<float> gradient = fixture.weight_gradients.slice(entry.offset, entry.size());
    auto& values = result.gradients[entry.name];
    for (const float value : gradient) values.push_back(value / denominator);
  }
  return result;
}

double relative_error(const std::vector<double>& found, const std::vector<double>& expected) {
  if (found.size() != expected.size()) return INFINITY;
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    difference += (found[i] - expected[i]) * (found[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return std::sqrt(difference) / std::max(std::sqrt(size), 1e-30);
}

GoldenErrors golden_errors(const GoldenCase& golden, const GoldenResult& result) {
  GoldenErrors errors{.loss = relative_error({result.loss}, golden.tensors.at("loss")),
                      .hidden = relative_error(result.hidden, result.expected_hidden)};
  for (const auto& [name, gradient] : result.gradients) {
    const double error = relative_error(gradient, golden.tensors.at("grad." + name));
    if (!(error <= errors.worst_gradient)) {
      errors.worst_gradient = error;
      errors.worst_name = name;
    }
  }
  return errors;
}

template GoldenResult run_golden_case(const GoldenCase&, const Kernels<float>&, const Device&);
template GoldenResult run_golden_case(const GoldenCase&, const Kernels<bf16>&, const Device&);

}  // namespace draftsmith
