#include "model/weights.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "base/all_cores.h"
#include "base/arithmetic.h"
#include "base/random.h"

namespace draftsmith {
namespace {

constexpr std::int64_t kAlignment =
    64;  // entries: matrices and groups begin on a cache line of any storage type
constexpr double kInitialDeviation = 0.02;  // initializer_range of the published configurations

// Appends entries; a group's members lie side by side.
class TableBuilder {
 public:
  void align() { table_.size = round_up(table_.size, kAlignment); }

  void matrix(std::string name, std::int64_t rows, std::int64_t columns) {
    append({.name = std::move(name), .rows = rows, .columns = columns, .initial = InitialValue::normal});
  }
  void vector(std::string name, std::int64_t size, InitialValue initial) {
    append({.name = std::move(name), .rows = size, .columns = 0, .initial = initial});
  }
  void end_of_decayed() {
    align();
    table_.decayed = table_.size;
  }
  WeightTable finish() {
    align();
    return std::move(table_);
  }

 private:
  void append(WeightEntry entry) {
    entry.offset = table_.size;
    table_.size += entry.size();
    table_.entries.push_back(std::move(entry));
  }

  WeightTable table_;
};

std::string layer_name(std::int64_t layer, const char* rest) {
  return fmt::format("layers.{}.{}", layer, rest);
}

void append_matrices(TableBuilder& builder, const DrafterShape& shape) {
  builder.matrix("fc.weight", shape.width, shape.feature_width());
  builder.align();
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    builder.matrix(layer_name(layer, "self_attn.k_proj.weight"), shape.kv_width(), shape.width);
    builder.matrix(layer_name(layer, "self_attn.v_proj.weight"), shape.kv_width(), shape.width);
  }
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    builder.align();
    builder.matrix(layer_name(layer, "self_attn.q_proj.weight"), shape.query_width(), shape.width);
    builder.align();
    builder.matrix(layer_name(layer, "self_attn.o_proj.weight"), shape.width, shape.query_width());
    builder.align();
    builder.matrix(layer_name(layer, "mlp.gate_proj.weight"), shape.intermediate, shape.width);
    builder.matrix(layer_name(layer, "mlp.up_proj.weight"), shape.intermediate, shape.width);
    builder.align();
    builder.matrix(layer_name(layer, "mlp.down_proj.weight"), shape.width, shape.intermediate);
  }
}

void append_vectors(TableBuilder& builder, const DrafterShape& shape) {
  const auto norm = [&](std::string name, std::int64_t size) {
    builder.vector(std::move(name), size, InitialValue::ones);
    builder.align();
  };
  norm("hidden_norm.weight", shape.width);
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    norm(layer_name(layer, "input_layernorm.weight"), shape.width);
    norm(layer_name(layer, "post_attention_layernorm.weight"), shape.width);
    norm(layer_name(layer, "self_attn.q_norm.weight"), shape.head_dim);
    norm(layer_name(layer, "self_attn.k_norm.weight"), shape.head_dim);
  }
  norm("norm.weight", shape.width);
  if (!shape.attention_bias) return;
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    builder.vector(layer_name(layer, "self_attn.k_proj.bias"), shape.kv_width(), InitialValue::zeros);
    builder.vector(layer_name(layer, "self_attn.v_proj.bias"), shape.kv_width(), InitialValue::zeros);
  }
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    builder.align();
    builder.vector(layer_name(layer, "self_attn.q_proj.bias"), shape.query_width(), InitialValue::zeros);
    builder.align();
    builder.vector(layer_name(layer, "self_attn.o_proj.bias"), shape.width, InitialValue::zeros);
  }
}

}  // namespace

const WeightEntry& WeightTable::find(const std::string& name) const {
  for (const WeightEntry& entry : entries) {
    if (entry.name == name) return entry;
  }
  check_failed("find(name)", ("the table has no weight " + name).c_str(), __FILE__, __LINE__);
}

WeightTable drafter_weight_table(const DrafterShape& shape) {
  TableBuilder builder;
  append_matrices(builder, shape);
  builder.end_of_decayed();
  append_vectors(builder, shape);
  return builder.finish();
}

std::vector<std::vector<WeightRange>> completed_ranges(const DrafterShape& shape, const WeightTable& table) {
  const auto begin_of = [&](std::int64_t layer) {
    return layer == shape.layers ? table.decayed
                                 : table.find(layer_name(layer, "self_attn.q_proj.weight")).offset;
  };
  std::vector<std::vector<WeightRange>> ranges;
  for (std::int64_t layer = shape.layers - 1; layer >= 0; --layer) {
    ranges.push_back({{.begin = begin_of(layer), .size = begin_of(layer + 1) - begin_of(layer)}});
  }
  ranges.push_back(
      {{.begin = 0, .size = begin_of(0)}, {.begin = table.decayed, .size = table.size - table.decayed}});
  return ranges;
}

template <typename E>
DrafterWeights<E> view_weights(const DrafterShape& shape, const WeightTable& table, Vector<E> flat) {
  DRAFTSMITH_CHECK(flat.size == table.size, "the range holds the table");
  const auto matrix = [&](const std::string& first, std::int64_t rows) {
    const WeightEntry& entry = table.find(first);
    return matrix_view(offset_by(flat.data, entry.offset), rows, entry.columns);
  };
  const auto vector = [&](const std::string& first, std::int64_t size) {
    return flat.slice(table.find(first).offset, size);
  };
  const std::int64_t kv = 2 * shape.kv_width();
  DrafterWeights<E> weights{.fc = matrix("fc.weight", shape.width),
                            .all_key_value = matrix("layers.0.self_attn.k_proj.weight", shape.layers * kv),
                            .hidden_norm = vector("hidden_norm.weight", shape.width),
                            .norm = vector("norm.weight", shape.width)};
  if (shape.attention_bias) {
    weights.all_key_value_bias = vector("layers.0.self_attn.k_proj.bias", shape.layers * kv);
  }
  for (std::int64_t i = 0; i < shape.layers; ++i) {
    LayerWeights<E> layer{
        .input_norm = vector(layer_name(i, "input_layernorm.weight"), shape.width),
        .post_attention_norm = vector(layer_name(i, "post_attention_layernorm.weight"), shape.width),
        .query_norm = vector(layer_name(i, "self_attn.q_norm.weight"), shape.head_dim),
        .key_norm = vector(layer_name(i, "self_attn.k_norm.weight"), shape.head_dim),
        .query = matrix(layer_name(i, "self_attn.q_proj.weight"), shape.query_width()),
        .key_value = weights.all_key_value.slice_rows(i * kv, kv),
        .output = matrix(layer_name(i, "self_attn.o_proj.weight"), shape.width),
        .gate_up = matrix(layer_name(i, "mlp.gate_proj.weight"), 2 * shape.intermediate),
        .down = matrix(layer_name(i, "mlp.down_proj.weight"), shape.width)};
    if (shape.attention_bias) {
      layer.query_bias = vector(layer_name(i, "self_attn.q_proj.bias"), shape.query_width());
      layer.key_value_bias = weights.all_key_value_bias.slice(i * kv, kv);
      layer.output_bias = vector(layer_name(i, "self_attn.o_proj.bias"), shape.width);
    }
    weights.layers.push_back(layer);
  }
  return weights;
}

template DrafterWeights<float> view_weights(const DrafterShape&, const WeightTable&, Vector<float>);
template DrafterWeights<const float> view_weights(const DrafterShape&, const WeightTable&,
                                                  Vector<const float>);
template DrafterWeights<const bf16> view_weights(const DrafterShape&, const WeightTable&, Vector<const bf16>);

void initialise_weights(const WeightTable& table, std::uint64_t seed, Vector<float> flat) {
  constexpr std::int64_t kLeast = std::int64_t{1} << 18;  // a billion normal numbers take one core a minute
  on_all_cores(flat.size, kLeast, [&](std::int64_t begin, std::int64_t end) {
    std::fill(flat.data + begin, flat.data + end, 0.0f);
  });
  for (std::size_t index = 0; index < table.entries.size(); ++index) {
    const WeightEntry& entry = table.entries[index];
    const Vector<float> values = flat.slice(entry.offset, entry.size());
    if (entry.initial == InitialValue::zeros) continue;
    const Random random(seed, RandomStream::initial_weights, static_cast<std::uint32_t>(index));
    const bool ones = entry.initial == InitialValue::ones;
    on_all_cores(values.size, kLeast, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        values[i] =
            ones ? 1.0f
                 : static_cast<float>(kInitialDeviation * random.normal(static_cast<std::uint64_t>(i)));
      }
    });
  }
}

}  // namespace draftsmith
